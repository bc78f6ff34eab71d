debian elixir elixir
export LC_ALL=C.UTF-8
run_exunit() { record exunit "$1" mix test --seed 0 "${@:2}"; }
none() {
  mkdir -p lib test
  cat >mix.exs <<'EX'
defmodule Shop.MixProject do
  use Mix.Project
  def project, do: [app: :shop, version: "0.1.0"]
end
EX
  echo 'ExUnit.start()' >test/test_helper.exs
  cat >lib/shop.ex <<'EX'
defmodule Shop do
  def total(prices), do: Enum.sum(prices)

  def discount(price, percent) do
    if percent > 100, do: raise(ArgumentError, "percent too high: #{percent}")
    price - div(price * percent, 10)
  end
end
EX
}
passing() {
  none
  cat >test/total_test.exs <<'EX'
defmodule TotalTest do
  use ExUnit.Case

  test "of none" do
    assert Shop.total([]) == 0
  end

  @tag skip: "later"
  test "in a currency" do
    assert false
  end
end
EX
}
one() {
  passing
  cat >test/discount_test.exs <<'EX'
defmodule DiscountTest do
  use ExUnit.Case

  describe "of half" do
    test "takes 50 %" do
      IO.puts("FAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)")
      assert Shop.discount(200, 50) == 100
    end
  end
end
EX
}
twelve() {
  passing
  cat >test/values_test.exs <<'EX'
defmodule ValuesTest do
  use ExUnit.Case

  test "map" do
    assert %{a: 1, b: [1, 2]} == %{a: 1, b: [1, 3]}
  end

  test "text" do
    assert "one\ntwo" == "one\n2"
  end

  test "match" do
    assert {:ok, _} = {:error, :none}
  end

  test "raises" do
    Shop.discount(1, 101)
  end

  test "must raise" do
    assert_raise KeyError, fn -> 1 end
  end

  test "truth" do
    assert Enum.empty?([1]), "list is not empty"
  end

  for n <- [1, 2] do
    test "number #{n}" do
      assert unquote(n) > 2
    end
  end
end
EX
  cat >test/more_test.exs <<'EX'
defmodule MoreTest do
  use ExUnit.Case

  describe "größe" do
    setup do
      raise "set-up failed"
    end

    test "never runs", do: :ok
  end

  test "flunks" do
    flunk("not yet")
  end

  test "exits" do
    exit(:gone)
  end

  test "receives" do
    assert_receive :hello, 10
  end
end
EX
}
sample; passing; run_exunit all_pass
sample; one; run_exunit one_failure
run_exunit colours --color
run_exunit trace --trace
sample; twelve; run_exunit twelve_failures
sample; passing; echo 'defmodule CrashTest do use Missing end' >test/crash_test.exs; run_exunit import_crash
sample; none; run_exunit no_test
