python_tools ruff ruff
run_ruff() { record ruff "$1" ruff check --no-cache "${@:2}"; }
many() {
  mkdir shop
  printf 'from typing import *\nx = f"größe"\n' >shop/other.py
}
sample; echo 'x = 1' >a.py; run_ruff clean
sample; echo 'import os' >a.py; run_ruff one
sample; many; run_ruff many
run_ruff many_concise --output-format concise
run_ruff many_github --output-format github
FORCE_COLOR=1 run_ruff colours
sample; printf 'def f(:\n  pass\n' >a.py; run_ruff syntax
sample; printf '[lint]\nselect = ["NONSENSE"]\n' >ruff.toml; echo 'x = 1' >a.py; run_ruff config_error
sample; echo 'x=1' >a.py; record ruff format ruff format --check --no-cache .
