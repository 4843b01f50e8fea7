"""Writes docs/proof/benchmarks.md and its pictures from the results of a comparison.

    python -m benchmarks.report [RESULTS.json]

Without a file it takes the reference results, which are part of the repository.
"""

import ast
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bars import Group, bars
from benchmarks.contenders import CONTENDERS
from benchmarks.environments import PEERS
from benchmarks.tables import STORES, TITLES, rows

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).parent / "results" / "reference.json"
# how the page begins
PAGE = Path(__file__).with_name("page.md")
IMAGES = ROOT / "docs" / "images"
PICTURES = {
    "bench-drain": ("drain_per_s", "drain_plain_per_s"),
    "bench-late": ("late_p99_ms",),
    "bench-storm": ("storm_retry_wait_p99_ms",),
    "bench-crash": ("crash_s",),
}
CAPTIONS = {
    "bench-drain": "No-op jobs drained per second by one worker process (more is better)",
    "bench-late": "How late a retry starts on an idle worker, 99th percentile, ms (less is better)",
    "bench-storm": "A retry storm: how long due retries wait, 99th percentile, ms (less is better)",
    "bench-crash": "Seconds until a killed worker's job runs again (less is better)",
}


def main() -> None:
    """Read the results, write the page and the pictures."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE
    if not path.exists():
        shown = os.path.relpath(path)
        raise SystemExit(f"{shown} does not exist; run: make bench-peers ARGS='--json {shown}'")
    result = json.loads(path.read_text())
    for name, groups in pictures(result).items():
        drawn = bars(CAPTIONS[name], groups, logarithmic=name != "bench-drain")
        (IMAGES / f"{name}.svg").write_text(drawn)
    (ROOT / "docs/proof/benchmarks.md").write_text(page(result))


def page(result: Mapping[str, Any]) -> str:
    """The whole page."""
    options = result["options"]
    minutes = max(1, round(result["seconds"] / 60))
    said = PAGE.read_text().format(
        rounds=options["rounds"],
        cap=options["cap"],
        minutes=minutes,
        pictures="".join(map(picture, pictures(result))),
    )
    parts = [said, machine(result)]
    parts += [section(result, store) for store in STORES]
    parts += [settings(result), left_out(result)]
    return "".join(parts).rstrip() + "\n"


def pictures(result: Mapping[str, Any]) -> dict[str, list[Group]]:
    """What each picture shows; none where nothing was measured."""
    found: dict[str, list[Group]] = {}
    for name, figures in PICTURES.items():
        groups = [group for store in STORES if (group := group_of(result, store, figures))]
        if groups:
            found[name] = groups
    return found


def machine(result: Mapping[str, Any]) -> str:
    """On what it ran, and which versions."""
    about = result["machine"]
    names = ", ".join(f"{peer} {version}" for peer, version in result["versions"].items())
    return (
        f"## Machine and versions\n\n{about['processor']}, {about['cores']} cores,"
        f" {about['memory_gib']} GiB, {about['system']}, Python {about['python']},"
        f" {about['date']}.{remark(result)}\n\n{names}.\n\n"
    )


def remark(result: Mapping[str, Any]) -> str:
    """What else a reader should know about this run, if its file says so."""
    return f" {result['remark']}" if "remark" in result else ""


def picture(name: str) -> str:
    """A picture with its caption."""
    return f"![{CAPTIONS[name]}](../images/{name}.svg)\n\n"


def section(result: Mapping[str, Any], store: str) -> str:
    """The tables of a store."""
    parts = [f"## {STORES[store]}\n\n"]
    for title, columns in TITLES:
        lines = rows(result["medians"], store, columns)
        if lines:
            head = [f"{title[0].upper()}{title[1:]}:", "", bar(["", *columns])]
            head.append("|---" + "|---:" * len(columns) + "|")
            parts.append("\n".join([*head, *map(bar, lines)]) + "\n\n")
    return "".join(parts) if len(parts) > 1 else ""


def bar(cells: list[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cell or "-" if at else cell for at, cell in enumerate(cells)) + " |"


def settings(result: Mapping[str, Any]) -> str:
    """How each contender was set up, in the words of its own file."""
    parts = ["## Settings\n\n"]
    for peer in result["versions"]:
        script = next(PEERS.glob(f"with_{peer}.*"))
        words = " ".join(header(script).split())
        parts.append(f"- [{script.name}](../../benchmarks/peers/{script.name}): {words}\n")
    return "".join([*parts, "\n"])


def header(script: Path) -> str:
    """The docstring of a Python file, the first comment of another."""
    source = script.read_text()
    if script.suffix == ".py":
        return ast.get_docstring(ast.parse(source)) or ""
    lines = source.partition("\n\nconst")[0].splitlines()
    return "\n".join(line.removeprefix("//") for line in lines)


def left_out(result: Mapping[str, Any]) -> str:
    """Who did not take part, and why; and what went wrong."""
    names = {each.key: each.name for each in CONTENDERS}
    found = [f"- {names.get(key, key)}: {why}\n" for key, why in result["left_out"].items()]
    for key, figures in result["medians"].items():
        for name, why in figures.items():
            if name.endswith("_error"):
                found.append(f"- {key}, {name.removesuffix('_error')}: {why}\n")
    return "## Left out\n\n" + "".join(found) if found else ""


def group_of(result: Mapping[str, Any], store: str, figures: tuple[str, ...]) -> Group | None:
    """The bars of a store: the first of the figures that a contender has."""
    group: Group = (STORES[store], [])
    for contender in CONTENDERS:
        found = result["medians"].get(contender.key, {})
        value = next((found[figure] for figure in figures if figure in found), None)
        if contender.store == store and value is not None:
            group[1].append((contender.name, value))
    return group if group[1] else None


if __name__ == "__main__":
    main()
