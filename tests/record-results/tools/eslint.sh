node_tools eslint eslint @eslint/js typescript typescript-eslint
run_eslint() { record eslint "$1" eslint . "${@:2}"; }
project_with() {
  mkdir -p src
  cat >eslint.config.js <<'JS'
import js from '@eslint/js'
export default [js.configs.recommended, { rules: { eqeqeq: 'warn', 'no-console': 'error' } }]
JS
  cat >src/shop.js
}
many() {
  project_with <<'JS'
import fs from 'fs'
export function total(prices) {
  var unused = 1
  if (prices == null) return 0
  return undefinedFunction(prices)
}
console.log('x');;
JS
  printf 'export const a = 1\nexport const x = {\n  a: 1,\n  a: 2,\n}\n' >src/other.js
  printf 'export const = 1\n' >src/syntax.js
}
sample; link_node_tools; project_with <<<'export const one = 1'; run_eslint clean
sample; link_node_tools; project_with <<<'const one = 1'; run_eslint one
sample; link_node_tools; many; run_eslint many
run_eslint colours --color
sample; link_node_tools; project_with <<<'export const one = 1'; echo 'export default [{ rules: { nonsense: "error" } }]' >eslint.config.js; run_eslint config_error
sample; link_node_tools; mkdir src; echo '' >src/a.js; run_eslint no_config
