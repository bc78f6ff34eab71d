debian rspec ruby-rspec
run_rspec() { record rspec "$1" rspec "${@:2}"; }
passing() {
  mkdir -p spec lib
  cat >lib/shop.rb <<'RB'
def total(prices) = prices.sum

def discount(price, percent)
  raise ArgumentError, "percent too high: #{percent}" if percent > 100

  price - price * percent / 10
end
RB
  cat >spec/total_spec.rb <<'RB'
require_relative '../lib/shop'

RSpec.describe 'total' do
  it('of none') { expect(total([])).to eq(0) }
  xit('in a currency') { expect(1).to eq(2) }
  it('rounds') do
    pending 'known bug'
    expect(1).to eq(2)
  end
end
RB
}
one() {
  passing
  cat >spec/discount_spec.rb <<'RB'
require_relative '../lib/shop'

RSpec.describe 'discount' do
  context 'of half' do
    it 'takes 50 %' do
      puts "FAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)\n1 failing"
      expect(discount(200, 50)).to eq(100)
    end
  end
end
RB
}
twelve() {
  passing
  cat >spec/values_spec.rb <<'RB'
require_relative '../lib/shop'

RSpec.describe 'values' do
  it('hash') { expect({ a: 1, b: [1, 2] }).to eq({ a: 1, b: [1, 3] }) }
  it('text') { expect("one\ntwo\n").to eq("one\n2\n") }
  it('nil') { expect(total([1])).to be_nil }
  it('raises') { discount(1, 101) }
  it('includes') { expect([1, 2]).to include(3) }
  [1, 2].each do |n|
    it("number #{n}") { expect(n).to be > 2 }
  end
end
RB
  cat >spec/more_spec.rb <<'RB'
RSpec.describe 'more' do
  before { raise 'set-up failed' if @fail }
  it('größe: a name') { expect(true).to be false }
  it('has no method') { nil.size }
  it { expect(1).to eq(2) }
  context 'with a broken set-up' do
    before { raise 'no database' }
    it('never runs') {}
  end
  it 'fails twice' do
    aggregate_failures do
      expect(1).to eq(2)
      expect(3).to eq(4)
    end
  end
end
RB
}
sample; passing; run_rspec all_pass
sample; one; run_rspec one_failure
run_rspec colours --force-color
run_rspec documentation --format documentation
sample; twelve; run_rspec twelve_failures
sample; passing; echo "require 'missing'" >spec/crash_spec.rb; run_rspec import_crash
sample; mkdir spec; run_rspec no_test
