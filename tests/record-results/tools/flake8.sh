python_tools flake8 flake8
run_flake8() { record flake8 "$1" flake8 "${@:2}"; }
many() {
  mkdir shop
  printf 'import os, sys\nimport json\n\ndef total(prices):\n    unused = 1\n    if prices == None:\n        return missing\n    l = 1\n    return l\n' >shop/total.py
  printf 'from typing import *\nx = f"größe"\n' >shop/other.py
}
sample; echo 'x = 1' >a.py; run_flake8 clean
sample; echo 'import os' >a.py; run_flake8 one
sample; many; run_flake8 many
run_flake8 colours --color=always
run_flake8 statistics --statistics --count --show-source
sample; printf 'def f(:\n  pass\n' >a.py; run_flake8 syntax
sample; printf '[flake8]\nextend-ignore = nonsense!\n' >.flake8; echo 'x = 1' >a.py; run_flake8 config_error
