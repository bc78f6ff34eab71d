from sample import add


def test_adds() -> None:
    assert add(2, 3) == 5
