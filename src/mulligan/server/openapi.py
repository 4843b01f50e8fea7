"""The OpenAPI 3.1 description, made from the route table and the handlers' types."""

import inspect
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from starlette.responses import Response

from mulligan import __version__
from mulligan.server.endpoint import JSON, Row
from mulligan.server.idempotency import KEY_LIMIT
from mulligan.server.problems import Problem
from mulligan.server.schemas import REF, Schema, named, plain
from mulligan.server.shapes.names import Name

PROBLEM: Schema = {
    "description": "The request is refused: the detail names the value, the rule and the remedy.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The answer to a repeated key is the first answer, for a day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LIMIT, "pattern": "^[!-~]+$"},
}


@lru_cache(8)
def encoded(rows: tuple[Row, ...], prefix: str = "") -> bytes:
    """The description as JSON, of a server that is mounted at this prefix."""
    whole = describe(rows) | {"servers": [{"url": prefix or "/"}]}
    return msgspec.json.encode(whole)


def describe(rows: Sequence[Row]) -> Schema:
    """The whole description."""
    shapes = Shapes(rows)
    paths: dict[str, Schema] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = operation(row, shapes)
    components, paths = named(shapes.components, paths)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mulligan", "version": __version__, "license": {"name": "MIT"}},
        "security": [{"token": []}, {}],  # a server without tokens needs none
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class Shapes:
    """The JSON schemas of all types of the handlers."""

    def __init__(self, rows: Sequence[Row]) -> None:
        kinds = [kind for row in rows for kind in (row.query, row.body, answers(row))]
        kinds = [kind for kind in kinds if kind is not None]
        known = [Problem, Name, *kinds]
        schemas, components = msgspec.json.schema_components(known, ref_template=REF + "{name}")
        self.components: dict[str, Schema] = plain(components)
        self._known: dict[str, Schema] = dict(
            zip(map(repr, known), plain(list(schemas)), strict=True)
        )

    def of(self, kind: Any) -> Schema:
        """The schema of a type, as a reference where it has a name."""
        return self._known[repr(kind)]

    def properties(self, kind: Any) -> dict[str, Schema]:
        """The fields of a struct."""
        name = self.of(kind)["$ref"].rpartition("/")[2]
        found: dict[str, Schema] = self.components[name]["properties"]
        return found


def answers(row: Row) -> Any:
    """The type that the handler returns; None if it returns a response."""
    kind = row.hints["return"]
    return None if isinstance(kind, type) and issubclass(kind, Response) else kind


def operation(row: Row, shapes: Shapes) -> Schema:
    """One method of one path."""
    summary, more = summary_of(row)
    kind = answers(row)
    content: Schema = {row.media_type: {"schema": {} if kind is None else shapes.of(kind)}}
    described: Schema = {
        "operationId": row.handler.__name__,
        "summary": summary,
        "tags": [row.role],
        "parameters": parameters(row, shapes),
        "responses": {
            "200": {"description": answer_in_words(row, shapes), "content": content},
            "default": PROBLEM,
        },
    }
    if more:
        described["description"] = more
    if row.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": shapes.of(row.body)}},
        }
    return described


def answer_in_words(row: Row, shapes: Shapes) -> str:
    """What an answer is: the description of its type, or else of the route."""
    kind = answers(row)
    schema = {} if kind is None else shapes.of(kind)
    refs = [each["$ref"] for each in schema.get("anyOf", [schema]) if "$ref" in each]
    words = [shapes.components[ref.removeprefix(REF)].get("description", "") for ref in refs]
    return " ".join(filter(None, words)) or summary_of(row)[0]


def summary_of(row: Row) -> tuple[str, str]:
    """What the route does in a sentence, and in more of them if there are any."""
    summary, _, more = (inspect.getdoc(row.handler) or "").partition("\n\n")
    return " ".join(summary.split()), " ".join(more.split())


def parameters(row: Row, shapes: Shapes) -> list[Schema]:
    """The parameters of its path, query and headers."""
    found: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": shapes.of(Name)}
        for name in re.findall(r"{(\w+)}", row.path)
    ]
    found += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in shapes.properties(row.query).items()
    ]
    return found + ([KEY] if row.keyed else [])
