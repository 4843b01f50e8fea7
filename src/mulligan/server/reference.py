"""The API's page for people, made from its OpenAPI description."""

from functools import cache
from html import escape
from typing import Any

import msgspec

from mulligan.server.endpoint import JSON, Row
from mulligan.server.openapi import describe
from mulligan.server.problems import KINDS
from mulligan.server.schemas import Schema

HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>mulligan API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../reference.css">
<h1>mulligan API</h1>
<p>As a document for programs: <a href="openapi.json">openapi.json</a>.</p>
"""


@cache
def page(rows: tuple[Row, ...]) -> str:
    """The whole page."""
    whole = describe(rows)
    parts = [HEAD, "<h2>Routes</h2>\n"]
    parts += [route(row, whole["paths"][row.path][row.method.lower()]) for row in rows]
    parts += ["<h2>Shapes</h2>\n"]
    parts += [shape(name, each) for name, each in sorted(whole["components"]["schemas"].items())]
    parts += ["<h2>Problems</h2>\n<dl>\n", *map(problem, KINDS), "</dl>\n</html>\n"]
    return "".join(parts)


def route(row: Row, described: Schema) -> str:
    """One route with its parameters and answer."""
    lines = [("parameters", ", ".join(each["name"] for each in described["parameters"]))]
    if row.body is not None:
        lines.append(("takes", linked(described["requestBody"]["content"][JSON]["schema"])))
    answer = described["responses"]["200"]["content"][row.media_type]["schema"]
    lines.append(("gives", linked(answer) if answer else escape(row.media_type)))
    items = "".join(f"<dt>{name}</dt><dd>{text}</dd>\n" for name, text in lines if text)
    words = f"{described['summary']} {described.get('description', '')}"
    name = f"<code>{row.method} {escape(row.path)}</code> <small>{row.role}</small>"
    return (
        f"<section><h3>{name}</h3>\n<p>{escape(words.strip())}</p>\n<dl>\n{items}</dl></section>\n"
    )


def shape(name: str, schema: Schema) -> str:
    """One shape with its fields."""
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{linked(inner)}</td>"
        f"<td>{'required' if field in required else default(inner)}</td></tr>\n"
        for field, inner in schema.get("properties", {}).items()
    )
    words = escape(" ".join(schema.get("description", "").split()))
    return (
        f'<section id="{name}"><h3>{name}</h3>\n<p>{words}</p>\n<table>\n{rows}</table></section>\n'
    )


def problem(kind: str) -> str:
    """One kind of problem."""
    status, title = KINDS[kind]
    return f'<dt id="{kind}"><code>{kind}</code> {status}</dt><dd>{title}</dd>\n'


def linked(schema: Schema) -> str:
    """A type in words; shapes are links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(linked(each) for each in schema[word])
    if "enum" in schema:
        return " or ".join(escape(msgspec.json.encode(each).decode()) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {linked(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {linked(schema['additionalProperties'])}"
    return escape(str(schema.get("type", "anything")))


def default(schema: Schema) -> str:
    """The default of a field."""
    value: Any = schema.get("default", msgspec.UNSET)
    return "" if value is msgspec.UNSET else escape(msgspec.json.encode(value).decode())
