debian go golang-go
export GOFLAGS=-mod=mod GOCACHE=$cache/go-build GOPATH=$cache/gopath
run_go() { record go_test "$1" go test "${@:2}" ./...; }
passing() {
  echo 'module example.com/shop' >go.mod
  echo 'go 1.19' >>go.mod
  cat >shop.go <<'GO'
package shop

func Total(prices []int) int {
	sum := 0
	for _, price := range prices {
		sum += price
	}
	return sum
}

func Discount(price, percent int) int {
	if percent > 100 {
		panic("percent too high")
	}
	return price - price*percent/10
}
GO
  cat >shop_test.go <<'GO'
package shop

import "testing"

func TestTotal(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}

func TestCurrency(t *testing.T) { t.Skip("later") }
GO
  mkdir -p empty && echo 'package empty' >empty/empty.go
}
one() {
  passing
  cat >discount_test.go <<'GO'
package shop

import (
	"fmt"
	"testing"
)

func TestDiscount(t *testing.T) {
	fmt.Println("running 1 test\ntest quoted ... FAILED\nFAIL src/quoted.test.js\n  ● quoted › jest\nnot ok 1 - quoted")
	if got := Discount(200, 50); got != 100 {
		t.Errorf("Discount(200, 50) = %d, want 100", got)
	}
}
GO
}
twelve() {
  passing
  mkdir -p cart
  cat >table_test.go <<'GO'
package shop

import "testing"

func TestTable(t *testing.T) {
	for _, c := range []struct {
		name        string
		price, want int
	}{{"ten", 10, 9}, {"a hundred", 100, 90}, {"größe", 200, 180}} {
		t.Run(c.name, func(t *testing.T) {
			if got := Discount(c.price, 10); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestNested(t *testing.T) {
	t.Run("outer", func(t *testing.T) {
		t.Run("inner", func(t *testing.T) { t.Fatal("inner failed") })
		t.Log("a log line")
	})
	t.Error("and outside")
}
GO
  cat >text_test.go <<'GO'
package shop

import "testing"

func TestText(t *testing.T) {
	t.Errorf("texts differ\n  got:  %q\n  want: %q", "one", "two")
}
func TestFailNow(t *testing.T) { t.FailNow() }
GO
  cat >cart/cart_test.go <<'GO'
package cart

import "testing"

func TestA(t *testing.T) { t.Error("a") }
func TestB(t *testing.T) { t.Parallel(); t.Error("b") }
func TestC(t *testing.T) { helper(t) }
func TestPass(t *testing.T) {}
func helper(t *testing.T) { t.Helper(); t.Fatalf("c: %v", 1) }
GO
}
sample; passing; run_go all_pass
sample; one; run_go one_failure
run_go one_failure_verbose -v
run_go one_failure_json -json
# go prints no colours; gotest and gotestsum-like wrappers colour the marks.
record go_test colours bash -c 'go test -v ./... | sed -e "s/^--- FAIL.*/\x1b[31m&\x1b[0m/" -e "s/^--- PASS.*/\x1b[32m&\x1b(B\x1b[m/" -e "s/^FAIL.*/\x1b[31;1m&\x1b[0m/"'
sample; twelve; run_go twelve_failures
run_go twelve_failures_verbose -v
run_go twelve_failures_json -json
sample; passing; echo 'func broken() int { return "text" }' >>shop_test.go; run_go import_crash
run_go import_crash_json -json
sample; passing; printf 'package shop\nimport "testing"\nfunc TestPanics(t *testing.T) { Discount(1, 101) }\n' >panic_test.go; run_go panic
sample; passing; rm shop_test.go; run_go no_test
sample; passing; printf 'package shop\nimport ("os";"testing")\nfunc TestMain(m *testing.M) { println("no database"); os.Exit(3) }\n' >main_test.go; run_go setup_crash
