run_unittest() { record unittest "$1" python3 -m unittest "${@:2}"; }
passing() {
  cat >test_total.py <<'PY'
import unittest

class TotalTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(sum([]), 0)

    def test_two(self):
        """Two prices are added."""
        self.assertEqual(sum([1, 2]), 3)

    @unittest.skip("later")
    def test_currency(self):
        self.fail()

    @unittest.expectedFailure
    def test_known_bug(self):
        self.assertEqual(1, 2)
PY
}
one() {
  passing
  cat >test_discount.py <<'PY'
import unittest

class DiscountTest(unittest.TestCase):
    def test_half(self):
        print("FAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)")
        self.assertEqual(200 - 20, 100)
PY
}
twelve() {
  passing
  cat >test_many.py <<'PY'
import unittest

class ManyTest(unittest.TestCase):
    def test_list(self):
        self.assertEqual([1, 2, 3], [1, 2, 4])

    def test_text(self):
        self.assertEqual("one\ntwo\n", "one\n2\n")

    def test_true(self):
        self.assertTrue(False)

    def test_error(self):
        {}["key"]

    def test_doc(self):
        """A test with a docstring."""
        self.assertIn(3, [1, 2])

    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(i % 2, 0)

    def test_nested(self):
        helper(self)

def helper(case):
    case.assertEqual("got", "wanted", "from a helper")
PY
  cat >test_more.py <<'PY'
import unittest

class MoreTest(unittest.TestCase):
    def test_a(self):
        self.assertEqual({"a": 1}, {"a": 2})

    def test_b(self):
        with self.assertRaises(KeyError):
            pass

    def test_c(self):
        self.assertAlmostEqual(1.0, 1.1)

    def test_d(self):
        raise RuntimeError("größe\nsecond line")

class SetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no database")

    def test_never(self):
        pass
PY
}
sample; passing; run_unittest all_pass
sample; one; run_unittest one_failure
run_unittest verbose -v
sample; twelve; run_unittest twelve_failures
run_unittest twelve_verbose -v
sample; passing; echo 'import missing_module' >test_import.py; run_unittest import_crash
sample; run_unittest no_test
locals() {
  cat >test_locals.py <<'PY'
import unittest

class Basket:
    def __repr__(self):
        return "Basket\ntotal: 3\nprices: [1, 2]"

class LocalsTest(unittest.TestCase):
    def test_total(self):
        basket = Basket()
        self.assertEqual(3, 4)
PY
}
sample; locals; run_unittest long_locals --locals
# unittest has no colours before Python 3.13; a runner that colours the whole is imitated by script's terminal.
sample; one; record unittest colours bash -c 'python3 -m unittest -v 2>&1 | sed -e "s/FAIL/\x1b[31mFAIL\x1b[0m/" -e "s/ok$/\x1b[32mok\x1b(B\x1b[m/"'
