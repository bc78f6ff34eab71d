run_node() { record node_test "$1" node --test "${@:2}"; }
passing() {
  mkdir -p test
  cat >test/total.test.mjs <<'JS'
import assert from 'node:assert'
import { describe, it, test } from 'node:test'

describe('total', () => {
  it('of none', () => { assert.equal(0, 0) })
  it('in a currency', { skip: 'later' }, () => {})
  it('rounds', { todo: true }, () => { assert.equal(1, 2) })
})
JS
}
one() {
  passing
  cat >test/discount.test.mjs <<'JS'
import assert from 'node:assert'
import { describe, it } from 'node:test'

describe('discount', () => {
  describe('of half', () => {
    it('takes 50 %', () => {
      console.log('not ok 1 - quoted\nFAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)')
      assert.strictEqual(180, 100)
    })
  })
})
JS
}
twelve() {
  passing
  cat >test/values.test.mjs <<'JS'
import assert from 'node:assert'
import { describe, it, test } from 'node:test'

test('at the top', () => { assert.deepStrictEqual({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] }) })
describe('values', () => {
  it('text', () => { assert.equal('one\ntwo', 'one\n2') })
  it('is ok', () => { assert.ok(false, 'must be ok') })
  it('throws', () => { null.length })
  it('matches', () => { assert.match('hello', /world/) })
  it('same text', () => { assert.equal('a', 'b', 'own words') })
})
JS
  cat >test/async.test.mjs <<'JS'
import assert from 'node:assert'
import { before, describe, it, test } from 'node:test'

test('parent', async (t) => {
  await t.test('child # one', () => { assert.strictEqual(1, 2) })
  await t.test('größe', () => { throw new Error('first\nsecond') })
})
it('rejects', async () => { throw new Error('no database') })
it('times out', { timeout: 20 }, async () => { await new Promise((r) => setTimeout(r, 200)) })
describe('with a set-up', () => {
  before(() => { throw new Error('set-up failed') })
  it('never runs', () => {})
})
it('throws text', () => { throw 'plain text' })
JS
}
for reporter in spec tap; do
  sample; passing; run_node all_pass_$reporter --test-reporter=$reporter
  sample; one; run_node one_failure_$reporter --test-reporter=$reporter
  sample; twelve; run_node twelve_failures_$reporter --test-reporter=$reporter
  sample; passing; echo "import './missing.mjs'" >test/crash.test.mjs; run_node import_crash_$reporter --test-reporter=$reporter
  sample; run_node no_test_$reporter --test-reporter=$reporter
done
sample; one; FORCE_COLOR=1 run_node colours --test-reporter=spec
sample; twelve; run_node twelve_failures_dot --test-reporter=dot
