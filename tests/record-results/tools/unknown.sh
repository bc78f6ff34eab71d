# Tools that no reader knows: what is shown of their output is an excerpt (crates/ralph-core/src/say/excerpt.rs).
recorded=$here/../../crates/ralph-core/src/say/excerpt/recorded

node_tools unknown_node jasmine@5 uvu@0.5 esbuild@0.21
sample
link_node_tools
mkdir -p spec src tests
echo '{"name":"shop","type":"module"}' >package.json
echo 'export const total = (items) => items.reduce((sum, item) => sum + item.price, 1);' >src/total.js
{
  echo "import { total } from '../src/total.js';"
  echo "describe('total', () => {"
  for number in $(seq 1 40); do
    echo "  it('passes $number', () => { console.log('looked at number $number'); expect($number).toBe($number); });"
  done
  for number in 10 20 30; do
    echo "  it('of a price of $number', () => {"
    echo "    expect(total([{ price: $number }])).toBe($number);"
    echo "  });"
  done
  echo "});"
} >spec/total_spec.js
record jasmine failing jasmine 'spec/**/*_spec.js' --random=false
{
  echo "import { test } from 'uvu'; import * as assert from 'uvu/assert'; import { total } from '../src/total.js';"
  for number in $(seq 1 30); do echo "test('passes $number', () => { console.log('number $number of many'); assert.is($number, $number); });"; done
  for number in 10 20 30; do echo "test('of a price of $number', () => { assert.is(total([{ price: $number }]), $number); });"; done
  echo "test.run();"
} >tests/total.js
record uvu failing node tests/total.js
for number in $(seq 1 12); do echo "import { missing$number } from './none$number.js'; export const a$number = missing$number;" >src/part$number.js; done
for number in $(seq 1 12); do echo "export * from './part$number.js';"; done >src/all.js
record esbuild failing esbuild --bundle src/all.js --outfile=out.js

python_tools unknown_python behave robotframework
sample
mkdir -p features/steps
{
  echo 'Feature: prices'
  for number in $(seq 1 20); do printf '  Scenario: number %s\n    Given a price of %s\n    Then the total is %s\n' "$number" "$number" "$((number == 7 || number == 15 ? number + 1 : number))"; done
} >features/prices.feature
cat >features/steps/prices.py <<'PY'
from behave import given, then


@given("a price of {price:d}")
def a_price(context, price):
    context.total = price


@then("the total is {total:d}")
def the_total(context, total):
    assert context.total == total, f"expected {total}, got {context.total}"
PY
record behave failing behave --no-color
{
  echo '*** Test Cases ***'
  for number in $(seq 1 25); do printf 'Number %s\n    Log To Console    looked at %s\n    Should Be Equal As Integers    %s    %s\n' "$number" "$number" "$number" "$((number == 9 ? 10 : number))"; done
} >prices.robot
record robot failing robot --outputdir out prices.robot

sample
mkdir t
{
  echo 'use strict; use warnings; use Test::More tests => 30;'
  for number in $(seq 1 30); do echo "is($number, $((number == 12 || number == 22 ? number + 1 : number)), 'number $number');"; done
} >t/prices.t
record prove failing prove t
