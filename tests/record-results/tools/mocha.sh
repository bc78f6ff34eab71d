node_tools mocha mocha chai
run_mocha() { record mocha "$1" mocha "${@:2}"; }
passing() {
  mkdir -p test src
  echo '{"type":"module"}' >package.json
  cat >src/shop.js <<'JS'
export const total = (prices) => prices.reduce((sum, price) => sum + price, 0)
export function discount(price, percent) {
  if (percent > 100) throw new RangeError(`percent too high: ${percent}`)
  return price - (price * percent) / 10
}
JS
  cat >test/total.js <<'JS'
import assert from 'node:assert'
import { total } from '../src/shop.js'

describe('total', () => {
  it('of none', () => { assert.equal(total([]), 0) })
  it('in a currency')
  it.skip('rounds', () => {})
})
JS
}
one() {
  passing
  cat >test/discount.js <<'JS'
import assert from 'node:assert'
import { discount } from '../src/shop.js'

describe('discount', () => {
  describe('of half', () => {
    it('takes 50 %', () => {
      console.log('FAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)\nFAILED tests/test_quoted.py::test_it - assert 1 == 2')
      assert.strictEqual(discount(200, 50), 100)
    })
  })
})
JS
}
twelve() {
  passing
  cat >test/values.js <<'JS'
import assert from 'node:assert'
import { expect } from 'chai'
import { total, discount } from '../src/shop.js'

it('at the top', () => { assert.deepStrictEqual({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] }) })
describe('values', () => {
  it('text', () => { assert.equal('one\ntwo', 'one\n2') })
  it('chai', () => { expect(total([1])).to.equal(2) })
  it('deep', () => { expect({ a: 1 }).to.deep.equal({ a: 2 }) })
  it('throws', () => { discount(1, 101) })
  it('says', () => { assert.ok(false, 'must be ok') })
})
JS
  cat >test/async.js <<'JS'
describe('async', () => {
  it('rejects', async () => { throw new Error('no database') })
  it('größe: done twice', (done) => { done(); done(new Error('twice')) })
  it('times out', (done) => {}).timeout(20)
  it('calls back', (done) => { setTimeout(() => done(new Error('late')), 1) })
})
describe('with a set-up', () => {
  before(() => { throw new Error('set-up failed') })
  it('never runs', () => {})
})
describe('no error', () => {
  it('throws text', () => { throw 'plain text' })
})
JS
}
sample; link_node_tools; passing; run_mocha all_pass
sample; link_node_tools; one; run_mocha one_failure
run_mocha colours --color
run_mocha dot --reporter dot
sample; link_node_tools; twelve; run_mocha twelve_failures
run_mocha twelve_dot --reporter dot
sample; link_node_tools; passing; echo "import './missing.js'" >test/crash.js; run_mocha import_crash
sample; link_node_tools; run_mocha no_test
sample; link_node_tools; mkdir test; echo '' >test/empty.js; run_mocha empty_file
