debian go golang-go
export GOFLAGS=-mod=mod GOCACHE=$cache/go-build GOPATH=$cache/gopath
run_vet() { record go_vet "$1" go "${2:-vet}" ./...; }
project_with() { printf 'module example.com/shop\n\ngo 1.19\n' >go.mod; cat >shop.go; }
sample; project_with <<<'package shop'; run_vet clean
sample; project_with <<'GO'
package shop

import "fmt"

func Say(n int) { fmt.Printf("%s\n", n) }
GO
run_vet one
record go_vet colours bash -c 'go vet ./... 2>&1 | sed -e "s/^[^#].*\.go:[0-9]*:[0-9]*/\x1b[1m&\x1b(B\x1b[m/"'
sample; project_with <<'GO'
package shop

import "fmt"

type Price struct {
	Amount int `json:amount`
}

func Say(n int) {
	fmt.Printf("%s\n", n)
	fmt.Println("%d", n)
	n = n
	return
	fmt.Println("never")
}
GO
mkdir cart; printf 'package cart\n\nimport "fmt"\n\nfunc Größe() { fmt.Sprintf("%%d") }\n' >cart/cart.go
run_vet many
sample; project_with <<'GO'
package shop

import "os"

func Total() int { return "text" + missing }
GO
run_vet type_error; run_vet build build
sample; project_with <<<'package shop
func {'; run_vet syntax
sample; echo 'nonsense' >go.mod; echo 'package shop' >shop.go; run_vet config_error
