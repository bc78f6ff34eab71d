python_tools ruff ruff
sample; printf 'import os\nx = missing\n' >a.py
record sarif ruff ruff check --no-cache --quiet --output-format sarif
sample; echo 'x = 1' >a.py; record sarif clean ruff check --no-cache --quiet --output-format sarif
