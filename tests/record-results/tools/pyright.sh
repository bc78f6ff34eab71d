python_tools pyright pyright
node_tools pyright_node pyright
run_pyright() { record pyright "$1" "$node_folder/node_modules/.bin/pyright" "${@:2}"; }
many() {
  cat >total.py <<'PY'
import missing_module
from typing import Optional


def total(prices: list[int]) -> str:
    return sum(prices)


def first(prices: Optional[list[int]]) -> int:
    return prices[0]


total("text", 1)
PY
  mkdir shop
  printf 'x: int = "größe"\nreveal_type(x)\nprint(y)\n' >shop/other.py
}
sample; echo 'x: int = 1' >a.py; run_pyright clean
sample; echo 'x: int = "text"' >a.py; run_pyright one
sample; many; run_pyright many
FORCE_COLOR=1 run_pyright colours
sample; printf 'def f(:\n  pass\n' >a.py; run_pyright syntax
sample; echo '{ nonsense' >pyrightconfig.json; echo 'x = 1' >a.py; run_pyright config_error
