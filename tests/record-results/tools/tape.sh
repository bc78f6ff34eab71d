node_tools tape tape
run_tape() { record tape "$1" tape "test/*.js"; }
passing() {
  mkdir -p test
  cat >test/total.js <<'JS'
const test = require('tape')

test('total', (t) => {
  t.equal(0, 0, 'of none')
  t.test('in a currency', { skip: true }, (t) => t.end())
  t.test('rounds', { todo: true }, (t) => { t.equal(1, 2); t.end() })
  t.end()
})
JS
}
one() {
  passing
  cat >test/discount.js <<'JS'
const test = require('tape')

test('discount', (t) => {
  console.log('FAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)')
  t.equal(180, 100, 'takes 50 %')
  t.end()
})
JS
}
twelve() {
  passing
  cat >test/values.js <<'JS'
const test = require('tape')

test('values', (t) => {
  t.deepEqual({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] })
  t.equal('one\ntwo', 'one\n2', 'text')
  t.ok(false, 'must be ok')
  t.throws(() => {}, 'throws')
  t.match('hello', /world/, 'matches')
  t.error(new Error('no database'), 'no error')
  t.end()
})
test('größe # with a mark', (t) => {
  t.fail('fails')
  t.end()
})
JS
  cat >test/async.js <<'JS'
const test = require('tape')

test('async', async (t) => {
  t.equal(await 3, 4, 'awaited')
})
test('planned', (t) => {
  t.plan(2)
  t.equal(1, 1)
  setTimeout(() => t.end(), 1)
})
test('times out', { timeout: 20 }, (t) => {})
test('nested', (t) => {
  t.test('inner', (t) => { t.notEqual(1, 1, 'differs'); t.end() })
  t.end()
})
JS
}
sample; link_node_tools; passing; run_tape all_pass
sample; link_node_tools; one; run_tape one_failure
sample; link_node_tools; twelve; run_tape twelve_failures
sample; link_node_tools; passing; echo "require('./missing')" >test/crash.js; run_tape import_crash
sample; link_node_tools; mkdir test; echo "require('tape')" >test/none.js; run_tape no_test
# tape prints no colours; tools that pipe it (and `grc`) colour the marks.
sample; link_node_tools; one; record tape colours bash -c 'tape "test/*.js" | sed -e "s/^not ok/\x1b[31mnot ok\x1b[0m/" -e "s/^ok/\x1b[32mok\x1b(B\x1b[m/"'
# An error outside of a test ends the process before the summary.
sample; link_node_tools; one; echo "require('tape')('later', () => setTimeout(() => null.length, 5))" >test/later.js; run_tape crash
