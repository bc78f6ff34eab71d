python_tools mypy mypy
run_mypy() { record mypy "$1" mypy "${@:2}" .; }
many() {
  mkdir -p shop
  cat >shop/total.py <<'PY'
import missing_module
from typing import Optional


def total(prices: list[int]) -> str:
    return sum(prices)


def first(prices: Optional[list[int]]) -> int:
    return prices[0]


class Base:
    def price(self, amount: int) -> int:
        return amount


class Sub(Base):
    def price(self, amount: str) -> str:
        return amount


total("text", 1)
PY
  touch shop/__init__.py
  printf 'x: int = "größe"\nreveal_type(x)\n' >shop/other.py
}
sample; echo 'x: int = 1' >a.py; run_mypy clean
sample; echo 'x: int = "text"' >a.py; run_mypy one
sample; many; run_mypy many
run_mypy columns --show-column-numbers
run_mypy pretty --pretty
TERM=xterm MYPY_FORCE_COLOR=1 run_mypy colours
sample; printf 'def f(:\n  pass\n' >a.py; run_mypy syntax
sample; printf '[mypy]\nnonsense = maybe\npython_version = x\n' >mypy.ini; echo 'x = 1' >a.py; run_mypy config_error
