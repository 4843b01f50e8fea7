"""Every default and limit, as `mulligan settings --json` lists them."""

import json
from itertools import groupby

from click.testing import CliRunner

from mulligan.cli import cli


def page() -> str:
    """A table for each thing that has settings."""
    said = CliRunner().invoke(cli, ["settings", "--json"], catch_exceptions=False).stdout
    parts = []
    for of, rows in groupby(json.loads(said)["settings"], key=lambda row: row["of"]):
        parts.append(f"## {of.capitalize()}\n\n| name | default | meaning |\n|---|---|---|\n")
        parts += [f"| `{r['name']}` | {shown(r['value'])} | {r['meaning']} |\n" for r in rows]
        parts.append("\n")
    return "".join(parts)


def shown(value: object) -> str:
    """A default as a reader writes it."""
    if value is None or value == []:
        return "none"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
