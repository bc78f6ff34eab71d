node_tools tsc typescript
run_tsc() { record tsc "$1" tsc -p . "${@:2}"; }
project_with() {
  mkdir -p src
  echo '{"compilerOptions":{"strict":true,"noEmit":true,"types":[]},"include":["src"]}' >tsconfig.json
  cat >src/shop.ts
}
many() {
  project_with <<'TS'
import { missing } from './missing'
export function total(prices: number[]): string {
  return prices.reduce((sum, price) => sum + price, 0)
}
interface Price { amount: number; currency: { code: string; digits: number } }
export const price: Price = { amount: 1, currency: { code: 'EUR', digits: 'two' } }
total('text', 1)
let x: number = undefined
TS
  printf 'export const wrong: number = "größe"\nexport function f(a) { return a }\n' >src/other.ts
}
sample; project_with <<<'export const one = 1'; run_tsc clean
sample; project_with <<<'export const one: string = 1'; run_tsc one
sample; many; run_tsc many --pretty false
run_tsc colours --pretty
record tsc pretty_plain bash -c 'tsc -p . --pretty | sed "s/\x1b\[[0-9;]*m//g"'
sample; project_with <<<'export const = 1 +'; run_tsc syntax
sample; echo '{"compilerOptions":{"strct":true,"module":"nonsense"}}' >tsconfig.json; echo 'export {}' >a.ts; run_tsc config_error
