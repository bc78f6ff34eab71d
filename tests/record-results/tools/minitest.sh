debian ruby ruby ruby-minitest
run_minitest() { record minitest "$1" ruby -Itest -e 'Dir["./test/*_test.rb"].sort.each { |f| require f }' -- --seed 1 "${@:2}"; }
passing() {
  mkdir -p test
  cat >test/total_test.rb <<'RB'
require 'minitest/autorun'

class TotalTest < Minitest::Test
  def test_none
    assert_equal 0, [].sum
  end

  def test_currency
    skip 'later'
  end
end
RB
}
one() {
  passing
  cat >test/discount_test.rb <<'RB'
require 'minitest/autorun'

class DiscountTest < Minitest::Test
  def test_half
    puts "FAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)"
    assert_equal 100, 200 - 20
  end
end
RB
}
twelve() {
  passing
  cat >test/values_test.rb <<'RB'
require 'minitest/autorun'

class ValuesTest < Minitest::Test
  def test_hash
    assert_equal({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] })
  end

  def test_text
    assert_equal "one\ntwo\n", "one\n2\n"
  end

  def test_nil
    assert_nil 1, 'must be nil'
  end

  def test_raises
    assert_raises(KeyError) { 1 }
  end

  def test_error
    raise ArgumentError, "no database\nsecond line"
  end

  def test_includes
    assert_includes [1, 2], 3
  end
end
RB
  cat >test/more_test.rb <<'RB'
require 'minitest/autorun'

describe 'größe' do
  it 'is a number' do
    _(1).must_equal 2
  end

  it 'has: a colon' do
    _([1]).must_be_empty
  end
end

class MoreTest < Minitest::Test
  def setup
    raise 'set-up failed' if name == 'test_setup'
  end

  def test_setup; end

  def test_helper
    check 3
  end

  def check(value)
    assert_equal 4, value
  end

  def test_flunk
    flunk
  end

  def test_plain
    assert false
  end
end
RB
}
sample; passing; run_minitest all_pass
sample; one; run_minitest one_failure
run_minitest verbose -v
sample; twelve; run_minitest twelve_failures
sample; passing; echo "require 'missing'" >test/crash_test.rb; run_minitest import_crash
sample; mkdir test; echo "require 'minitest/autorun'" >test/none_test.rb; run_minitest no_test
sample; one; run_minitest colours --pride
