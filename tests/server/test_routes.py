"""One table: what is served is described, documented, and not more."""

import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec.json import encode

from mulligan.server.openapi import describe
from mulligan.server.problems import KINDS
from mulligan.server.routes import ROUTES
from mulligan.server.static import MEDIA_TYPES, Static
from tests.server.conftest import good

DOCS = (Path(__file__).parents[2] / "docs/reference/server.md").read_text()
ROWS = [pytest.param(row, id=f"{row.method} {row.path}") for row in ROUTES]


@pytest.mark.parametrize("row", ROWS)
def test_every_route_is_documented_with_its_role(row):
    assert f"| `{row.method} {row.path}` | {row.role} |" in DOCS


def test_every_documented_route_exists():
    found = set(re.findall(r"\| `(GET|POST) (/[^`]*)` \| (\w+) \|", DOCS))
    assert found == {(row.method, row.path, row.role) for row in ROUTES}


@pytest.mark.parametrize("row", ROWS)
async def test_every_route_is_described(client, row):
    document = await good(client.get("/api/openapi.json"))
    operation = document["paths"][row.path][row.method.lower()]
    assert operation["summary"].endswith((".", ";"))
    assert row.media_type in operation["responses"]["200"]["content"]
    assert ("requestBody" in operation) == (row.method == "POST")
    names = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
    assert names == set(re.findall(r"{(\w+)}", row.path))


def parts(document, field=""):
    """Every part of a document, with the field or parameter that holds it."""
    if isinstance(document, list):
        for each in document:
            yield from parts(each, field)
    elif isinstance(document, dict):
        yield field, document
        for name, value in document.items():
            if name == "properties":
                for inner, schema in value.items():
                    yield from parts(schema, inner)
            else:
                yield from parts(value, document["name"] if "in" in document else field)


def test_a_generator_finds_a_type_in_every_schema_and_each_only_once():
    document = describe(ROUTES)
    nameless: Counter[tuple[str, bytes]] = Counter()
    for field, part in parts(document):
        if part.get("type") == "array":
            assert "items" in part, field
        if "200" not in part:  # responses have a default of another kind
            assert not isinstance(part.get("default"), dict | list), field
        if "enum" in part:
            kind = {"string": str, "integer": int}[part["type"]]
            assert all(type(value) is kind for value in part["enum"]), field
        anonymous = "title" not in part and (
            part.get("type") == "object" or len(part.get("enum", ())) > 1
        )
        if anonymous:
            nameless[field * (part["type"] == "object"), encode(part, order="sorted")] += 1
    assert not [each for each, times in nameless.items() if times > 1]
    references = {part["$ref"] for _, part in parts(document) if "$ref" in part}
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references <= known


def test_every_answer_is_described_in_words_of_its_own():
    for path in describe(ROUTES)["paths"].values():
        for operation in path.values():
            words = operation["responses"]["200"]["description"]
            assert len(words.split()) > 2, operation["operationId"]
            assert "\n" not in words


def test_nothing_but_the_table_is_described():
    document = describe(ROUTES)
    assert document["openapi"] == "3.1.0"
    described = {(path, method) for path, each in document["paths"].items() for method in each}
    assert described == {(row.path, row.method.lower()) for row in ROUTES}
    ids = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids))


def test_every_status_is_documented():
    for status, _ in KINDS.values():
        assert f"\n| {status} |" in DOCS or status == 500


async def test_the_page_of_the_api_has_every_route_shape_and_problem(client):
    page = (await client.get("/api/docs")).text
    for row in ROUTES:
        assert f"{row.method} {row.path}</code>" in page
    for kind in KINDS:
        assert f'id="{kind}"' in page
    anchors = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors


async def test_a_problems_type_leads_to_its_explanation(client):
    problem = (await client.get("/api/jobs/none")).json()
    path, _, anchor = problem["type"].partition("#")
    assert f'id="{anchor}"' in (await client.get(path)).text


async def test_a_wrong_method_is_told_the_right_ones(client):
    answer = await client.delete("/api/jobs")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "POST"}


# -- the dashboard's files -------------------------------------------------------------------


async def test_files_are_served_with_their_type_and_asked_about_again(client):
    first = await client.get("/")
    assert first.headers["content-type"] == "text/html; charset=utf-8"
    assert first.content == (await client.get("/index.html")).content
    assert first.headers["cache-control"] == "no-cache"
    again = await client.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_only_files_of_the_package_are_served(client):
    for path in (
        "/nothing.html",
        "/../service.py",
        "/..%2Fservice.py",
        "/%2e%2e/service.py",
        "//etc/passwd",
        "/static/index.html",
    ):
        answer = await client.get(path)
        assert answer.status_code == 404, path


async def test_a_file_cannot_be_written(client):
    answer = await client.post("/index.html")
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]


def test_every_file_in_the_package_has_a_known_type():
    folder = Path(Static.__module__.replace(".", "/")).parent
    source = Path(__file__).parents[2] / "src" / folder / "static"
    for file in source.rglob("*"):
        assert file.is_dir() or file.suffix[1:] in MEDIA_TYPES, file
