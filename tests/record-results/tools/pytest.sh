python_tools "${PYTEST_FOLDER:-pytest}" "${PYTEST:-pytest}" pytest-xdist
record_pytest() { record "${PYTEST_FOLDER:-pytest}" "$1" pytest -p no:cacheprovider "${@:2}"; }
passing() {
  mkdir -p tests src
  cat >src/shop.py <<'PY'
def total(prices):
    return sum(prices)


def discount(price, percent):
    if percent > 100:
        raise ValueError(f"percent too high: {percent}")
    return price - price * percent // 10
PY
  cat >tests/conftest.py <<'PY'
import sys
sys.path.insert(0, "src")
PY
  cat >tests/test_total.py <<'PY'
import pytest
from shop import total

def test_total_of_none():
    assert total([]) == 0

class TestTotal:
    @pytest.mark.parametrize("prices, wanted", [([1], 1), ([1, 2], 3)])
    def test_adds(self, prices, wanted):
        assert total(prices) == wanted

@pytest.mark.skip(reason="later")
def test_currency():
    assert False

@pytest.mark.xfail(reason="known bug")
def test_known_bug():
    assert total([1]) == 2
PY
}
one() {
  passing
  cat >tests/test_discount.py <<'PY'
from shop import discount

QUOTED = """
running 1 test
test quoted::login ... FAILED

failures:

---- quoted::login stdout ----
thread 'quoted::login' panicked at src/lib.rs:9:9:
boom

failures:
    quoted::login

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
FAIL src/quoted.test.js
  ● quoted › jest
--- FAIL: TestQuoted (0.00s)
not ok 1 - quoted tap
"""

def test_half_price():
    print(QUOTED)
    price = 200
    assert discount(price, 50) == 100
PY
}
twelve() {
  passing
  cat >tests/test_many.py <<'PY'
import pytest
from shop import discount, total

@pytest.mark.parametrize("percent", [10, 20, 30])
def test_percent(percent):
    assert discount(100, percent) == 100 - percent

def test_too_high():
    discount(100, 120)

def test_text():
    got = "one\ntwo\nthree\n"
    assert got == "one\n2\nthree\n"
PY
  cat >tests/test_objects.py <<'PY'
import unittest
import pytest
from shop import total

class TestNested:
    class TestInner:
        def test_dict(self):
            assert {"a": 1, "b": [1, 2, 3], "c": "x"} == {"a": 1, "b": [1, 2, 4], "c": "x"}

    def test_raises(self):
        with pytest.raises(KeyError):
            total([1])

class Old(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(total([1, 2]), 4, "sum of two")

@pytest.fixture
def broken():
    raise RuntimeError("no database")

def test_with_fixture(broken):
    pass
PY
  cat >tests/test_names.py <<'PY'
import pytest
from shop import total

@pytest.mark.parametrize("name", ["größe", "a b::c - d"])
def test_unicode(name):
    assert name == "size"

def test_helper():
    check(total([2]))

def check(value):
    assert value == 3, "value is wrong"
PY
}
sample; passing; record_pytest all_pass
sample; one; record_pytest one_failure
record_pytest colours --color=yes
record_pytest quiet -q
record_pytest short_traceback --tb=short -v
sample; twelve; record_pytest twelve_failures
record_pytest twelve_failures_short -q --tb=short
sample; passing; echo 'import missing_module' >tests/test_import.py; record_pytest import_crash
sample; mkdir tests; echo 'def helper(): pass' >tests/test_none.py; record_pytest no_test
sample; passing; echo 'raise RuntimeError("broken conftest")' >tests/conftest.py; record_pytest conftest_crash
sample
passing
printf 'import pytest\n\n\n@pytest.fixture\ndef database():\n    raise RuntimeError("no database")\n' >>tests/conftest.py
printf 'def test_reads(database):\n    assert database\n\n\ndef test_parts(subtests):\n    for part in (1, 2, 3):\n        with subtests.test(part=part):\n            assert part == 2\n' >tests/test_database.py
record_pytest fixture_and_subtests
record_pytest fixture_and_subtests_short -q --tb=no
