"""Statements are files of their own, one each; this reads them."""

from importlib.resources import files
from typing import Any

import msgspec


def load(name: str) -> str:
    """The statement of this name, without the header that describes it."""
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


def as_json(value: Any) -> str:
    """The value as text for json_each; newer releases of SQLite would misread bytes."""
    return msgspec.json.encode(value).decode()
