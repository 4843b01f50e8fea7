"""Property tests try the same examples in every run, whatever ran before them."""

from importlib import import_module

from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[tuple[int, str]]:
    seen = []

    @given(st.integers(), st.text())
    def look(number, text):
        seen.append((number, text))

    look()
    return seen


def test_examples_are_the_same_each_time_and_none_is_remembered():
    assert drawn() == drawn()
    assert settings().database is None


def test_examples_do_not_depend_on_which_modules_were_imported(tmp_path, monkeypatch):
    before = drawn()
    path = tmp_path / "module_with_constants.py"
    path.write_text(f"NUMBERS = {list(range(10_000, 11_000))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_module(path.stem)
    assert drawn() == before
