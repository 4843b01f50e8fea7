"""Every route of the server and every shape of JSON, from the OpenAPI description."""

from typing import Any

from mulligan.server.endpoint import JSON
from mulligan.server.openapi import describe
from mulligan.server.problems import KINDS
from mulligan.server.routes import ROUTES


def page() -> str:
    """Routes, then shapes, then problems."""
    whole = describe(ROUTES)
    routes = [route(row, whole["paths"][row.path][row.method.lower()]) for row in ROUTES]
    shapes = [shape(*each) for each in sorted(whole["components"]["schemas"].items())]
    problems = [f"| `{kind}` | {status} | {title} |\n" for kind, (status, title) in KINDS.items()]
    return "".join([
        *("## Routes\n\n", *routes, "## Shapes\n\n", *shapes),
        *("## Problems\n\n| type | status | meaning |\n|---|---|---|\n", *problems),
    ])  # fmt: skip


def route(row: Any, described: dict[str, Any]) -> str:
    """One route: who may, what it takes and what it gives."""
    words = f"{described['summary']} {described.get('description', '')}".strip()
    facts = [("role", f"`{row.role}`")]
    if names := [f"`{each['name']}`" for each in described["parameters"]]:
        facts.append(("parameters", ", ".join(names)))
    if row.body is not None:
        facts.append(("takes", kind(described["requestBody"]["content"][JSON]["schema"])))
    answer = described["responses"]["200"]["content"][row.media_type]["schema"]
    facts.append(("gives", kind(answer) if answer else f"`{row.media_type}`"))
    items = "".join(f"- {name}: {text}\n" for name, text in facts)
    return f"### `{row.method} {row.path}`\n\n{plain(words)}\n\n{items}\n"


def shape(name: str, schema: dict[str, Any]) -> str:
    """One shape with its fields."""
    required = schema.get("required", [])
    rows = [
        f"| `{field}` | {kind(inner)} | {'yes' if field in required else default(inner)} |\n"
        for field, inner in schema.get("properties", {}).items()
    ]
    table = ["| field | type | required, or its default |\n|---|---|---|\n", *rows] if rows else []
    words = plain(" ".join(schema.get("description", "").split()))
    return "".join([f"### {name}\n\n{words}\n\n", *table, "\n"])


def kind(schema: dict[str, Any]) -> str:
    """A type in words; shapes are links to their sections."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(kind(each) for each in schema[word]))
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {kind(schema.get('items') or {})}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return str(schema.get("format") or schema.get("type") or "any")


def default(schema: dict[str, Any]) -> str:
    """What a field is if it is left out."""
    return f"`{schema['default']!r}`" if schema.get("default") is not None else ""


def plain(text: str) -> str:
    """Words that Markdown leaves as they are."""
    return text.replace("<", "&lt;").replace("*", r"\*").replace("|", r"\|")
