"""Somebody who knows docs/howto/testing.md alone: its code as it stands there, in a new project."""

import re
from pathlib import Path

from tests.plugin.test_plugin import run

pytest_plugins = ("pytester",)

PAGE = (Path(__file__).parents[2] / "docs/howto/testing.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_what_the_page_says_works(pytester):
    app, more = blocks("python")
    (ini,) = blocks("ini")
    one, isolated, stores = blocks("py")
    (pytester.path / "pytest.ini").write_text(f"{ini}asyncio_mode = auto\npythonpath = .\n")
    (pytester.path / "shop.py").write_text(app)
    (pytester.path / "test_plain.py").write_text(f"from shop import *\n\n{more}")
    (pytester.path / "test_fixtures.py").write_text(one)
    (pytester.path / "test_stores.py").write_text(stores)
    (pytester.path / "conftest.py").write_text(isolated)
    code, out = run(pytester, "-v", "-rs", "shop.py", "test_plain.py", "test_fixtures.py")
    assert code == 0, out
    code, out = run(pytester, "-v", "-rs", "test_stores.py", REDIS_URL="")
    assert code == 0, out
    assert "the environment has no REDIS_URL" in out
    assert "2 passed, 1 skipped" in out


def test_its_failure_is_what_the_page_shows(pytester):
    app, _ = blocks("python")
    (pytester.path / "shop.py").write_text(app)
    (pytester.path / "test_it.py").write_text(
        "from shop import *\n\n\ndef test_it():\n    with app.testing():\n"
        "        send.enqueue('bob', 'Hi')\n        charge.enqueue(1), charge.enqueue(2)\n"
        "        assert_enqueued(send, args=['ada'])\n"
    )
    code, out = run(pytester)
    assert code == 1
    shown = re.search(r"    AssertionError: (.*\n(?:    .*\n)+)", PAGE)
    assert shown is not None
    said = [re.sub(r"0mb\w+|id \w+$", "id", line.strip()) for line in out.splitlines()]
    for line in shown[1].splitlines():
        wanted = re.sub(r"id \w+$", "id", line.strip())
        assert any(each.endswith(wanted) for each in said), f"{wanted}\n\n{out}"
