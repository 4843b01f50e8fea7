"""policy.md says what a policy is as JSON: its defaults and presets are those of the code."""

import re
from pathlib import Path

import msgspec

from mulligan.core.retry import (
    LETTERS,
    NAMED,
    Adaptive,
    Backoff,
    Delays,
    Exponential,
    Retry,
    Sessions,
)

PAGE = (Path(__file__).parents[2] / "docs/reference/policy.md").read_text()


def row(name: str, within: str = PAGE) -> str:
    """The row of a table that begins with the word."""
    found = re.search(rf"^\| `{name}` \|.*$", within, re.MULTILINE)
    assert found is not None, name
    return found[0]


def test_its_example_is_a_policy():
    text = re.search(r"^    (\{.*?\}\})$", PAGE, re.MULTILINE | re.DOTALL)
    assert text is not None
    assert msgspec.json.decode(text[1], type=Retry) == NAMED["quick"]


def test_its_defaults_are_those_of_the_code():
    assert f"| {Retry().max_retries} |" in row("max_retries")
    for kind in (Exponential, Adaptive, Sessions):
        said = row(str(kind.__struct_config__.tag))
        for field in msgspec.structs.fields(kind):
            value = field.default
            inherited = kind is Adaptive and value == getattr(Exponential(), field.name, None)
            shown = (
                f'`"{value}"`'
                if isinstance(value, str)
                else f"{value:g}"
                if isinstance(value, float)
                else ""
            )
            assert inherited or f"`{field.name}` {shown}" in said, field.name


def test_it_has_every_backoff_and_every_preset():
    for kind in (Exponential, Adaptive, Delays, Sessions):
        assert kind in Backoff.__args__
        assert row(str(kind.__struct_config__.tag))
    assert len(Backoff.__args__) == 4
    presets = PAGE.partition("## Presets")[2]
    for name in NAMED:
        letters = [letter for letter, of in LETTERS.items() if of == name]
        assert all(f"`{letter}`" in row(name, presets) for letter in letters)
