"""The documentation is true: its examples run, and what it names exists."""

import asyncio
import inspect
import re
import runpy
from pathlib import Path

import click
import pytest

import mulligan
from mulligan.app.handle import JobHandle
from mulligan.app.mulligan import Mulligan
from mulligan.app.options import CHECKS
from mulligan.cli import cli

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_in_order(page, monkeypatch, tmp_path):
    """Tasks are defined and enqueued for real; calls that wait are made inside `testing`."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    code = "\n".join(blocks(page))
    if not code or page.parent.name == "tutorial":  # tests/tutorial types that one
        return
    before, app_is, after = code.partition("\napp = ")
    app_made = before + app_is + after.split("\n\n\n", 1)[0]
    exec(compile(app_made, str(page), "exec"), names)  # noqa: S102 - our own words
    app = names.get("app")
    assert isinstance(app, Mulligan), f"{page.name} begins with an app"
    queues = {"default", *re.findall(r'queue="(\w+)"', code)}
    with app.testing(regions=("default", "US"), queues=sorted(queues)) as t:
        rest = code[len(app_made) :].replace("def test_", "def checked_")
        rest = re.sub(r"(async )?with app.testing\(\) as t:", "if True:", rest)
        names["t"] = t
        exec(compile(rest, str(page), "exec"), names)  # noqa: S102 - our own words
        for name, value in list(names.items()):
            if name.startswith("checked_") and callable(value):
                answer = value()
                if inspect.iscoroutine(answer):
                    asyncio.run(answer)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_pages_lead_to_a_heading(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        linked = page.parent / target if target else page
        headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
        anchors = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in headings]
        assert anchor in anchors, f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_that_examples_give_them(page):
    lines = re.findall(r"^    mulligan ([a-z]+) (.*)$", page.read_text(), re.MULTILINE)
    for name, rest in lines:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, f"{page.name} has mulligan {name}"
        parts = command.commands.values() if isinstance(command, click.Group) else [command]
        known = {word for part in parts for option in part.params for word in option.opts}
        given = re.findall(r"(?<= )--?[a-z][a-z-]*", " " + rest.split(" | ")[0].split(" #")[0])
        assert set(given) <= known, f"{page.name} has mulligan {name} {rest}"


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_first_whom_it_is_for(page):
    text = page.read_text()
    if not page.name.startswith("00") and "<!-- the file" not in text:
        title, empty, whom = text.splitlines()[:3]
        assert title.startswith("# ")
        assert not empty
        assert whom.startswith("*For "), whom


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs/reference/api.md").read_text()
    for name in mulligan.__all__:
        assert re.search(rf":: mulligan\.{name}$|`{name}`", page, re.MULTILINE), name


def test_the_guide_names_every_option():
    guide = (ROOT / "docs/reference/guide.md").read_text()
    for option in CHECKS:
        assert f"`{option}`" in guide, option


def test_the_guide_names_every_way_to_ask_about_a_job():
    guide = (ROOT / "docs/reference/guide.md").read_text()
    for name in dir(JobHandle):
        if not name.startswith("_") and name != "is_over":
            assert re.search(rf"[.`]{name}\b", guide), name
    assert "app.job(" in guide


def test_the_readme_is_short_and_has_one_picture():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 120
    assert readme.count("![") == 1


def test_the_glossary_leads_from_what_people_call_things_to_what_they_are():
    glossary = (ROOT / "docs/reference/glossary.md").read_text()
    rows = [line for line in glossary.partition("## One word")[0].splitlines() if line[:2] == "| "]
    for words in (
        *("delayed queue processor", "retry pool", "retry fetch ratio", "visibility timeout"),
        *("nack", "spawner", "session", "poison message", "DLQ", "in-flight cap", "ETA"),
        "visibility,",
    ):
        found = [row for row in rows if words in row.split("|")[1] + ","]
        assert found, words
        assert all("](" in row for row in found), words


def test_the_comparison_with_peers_has_the_figures_of_the_benchmarks():
    measured = (ROOT / "docs/proof/benchmarks.md").read_text()
    compared = (ROOT / "docs/concepts/why-not-celery.md").read_text().partition("## Measured")[2]
    redis, _, postgres = compared.partition("And on PostgreSQL:")
    rows = 0
    for store, text in (("Redis", redis), ("PostgreSQL", postgres)):
        section = re.split(r"^## ", measured.partition(f"\n## {store}\n")[2], flags=re.MULTILINE)[0]
        for who, *figures in re.findall(r"^\| (\w.*?) \|(.*)\|$", text, re.MULTILINE):
            name = re.sub(r", (coroutines|plain functions)| \(python\)", "", who.lower())
            name = re.sub(r", (.*)", r" (\1)", name)
            theirs = re.findall(rf"^\| {re.escape(name)} \|(.*)$", section, re.MULTILINE)
            known = set(re.findall(r"[\w.,]*\d|lost", " ".join(theirs)))
            for figure in re.findall(r"[\w.,]*\d|lost", " ".join(figures)):
                assert figure in known, f"{who} on {store}: {figure}"
                rows += 1
    assert rows > 60


def test_the_architecture_names_files_that_exist():
    page = (ROOT / "docs/project/architecture.md").read_text()
    named = re.findall(r"`((?:core|engine|app|stores)/[\w/]+\.py)`", page)
    assert len(named) > 40
    missing = [name for name in named if not (ROOT / "src/mulligan" / name).exists()]
    assert missing == []


def test_every_picture_is_made_by_a_script():
    scripts = ["Makefile", "docs/images/draw.py", "benchmarks/report.py"]
    text = "".join((ROOT / script).read_text() for script in scripts)
    taken = (ROOT / "tests/browser/screenshots.py").read_text().partition("PAGES = {")[2]
    pages = re.findall(r'^    "(\w+)": "', taken.partition("}\n")[0], re.MULTILINE)
    made = {f"dashboard-{page}-{theme}.png" for page in pages for theme in ("light", "dark")}
    made |= {"dashboard-phone-dark.png", *diagrams()}
    for picture in sorted(ROOT.glob("docs/images/*.[sp][vn]g")):
        named = picture.name in text or f'"{picture.stem}"' in text
        assert named or picture.name in made, f"{picture.name}: no script makes it"


def test_diagrams_are_as_the_script_draws_them():
    for name, drawn in diagrams().items():
        assert (ROOT / "docs/images" / name).read_text() == drawn, f"{name}: run make charts"


def diagrams() -> dict[str, str]:
    """Each diagram by the name of its file."""
    found: dict[str, str] = runpy.run_path(str(ROOT / "docs/images/diagrams.py"))["diagrams"]()
    return found
