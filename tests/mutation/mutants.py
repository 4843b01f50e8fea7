"""The mutants of a module: each is one small change inside one function."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Place(NamedTuple):
    """Where a node stands in the tree."""

    parent: ast.AST
    field: str
    position: int | None


@dataclass(frozen=True)
class Mutant:
    """What stands at a place gives way to something else, or to nothing."""

    function: str
    line: int
    change: str
    place: Place
    replacement: ast.AST | None

    def apply(self) -> None:
        """Change the tree, for good."""
        parent, field, position = self.place
        if position is None:
            setattr(parent, field, self.replacement)
        elif self.replacement is None:
            del getattr(parent, field)[position]
        else:
            getattr(parent, field)[position] = self.replacement


def mutants_of(tree: ast.Module) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its text.

    Wording stays: a text with a space in it, or with values put into it, is for people.
    """
    for name, function in functions_of(tree):
        for place, node in nodes_below(function, ("body",)):
            for change, replacement in changes_of(node, place):
                if isinstance(replacement, ast.expr | ast.stmt):
                    ast.copy_location(replacement, node)
                    ast.fix_missing_locations(replacement)
                yield Mutant(name, line_of(node, place, function), change, place, replacement)


def functions_of(
    parent: ast.Module | ast.ClassDef, within: str = ""
) -> Iterator[tuple[str, ast.AST]]:
    """The functions of a module and the methods of its classes, by qualified name."""
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + node.name, node


def nodes_below(parent: ast.AST, fields: tuple[str, ...]) -> Iterator[tuple[Place, ast.AST]]:
    """Every node in these fields and below, with its place; texts and annotations are left out."""
    for field in fields:
        value = getattr(parent, field)
        alone = not isinstance(value, list)
        for position, node in enumerate([value] if alone else value):
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
                yield Place(parent, field, None if alone else position), node
                inner = [each for each in node._fields if each not in ("annotation", "returns")]
                yield from nodes_below(node, tuple(inner))


def changes_of(node: ast.AST, place: Place) -> Iterator[tuple[str, ast.AST | None]]:
    """What may stand in the node's place, and how to say so."""
    if isinstance(node, ast.stmt):
        yield from changes_of_statement(node)
    elif type(node) in SWAPPED:
        other = SWAPPED[type(node)]
        yield f"{type(node).__name__} becomes {other.__name__}", other()
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "without its not", operand
        case ast.Constant(value=value) if not isinstance(place.parent, ast.Expr):
            yield from changes_of_constant(value)
        case ast.Name(id=name) if name in OPPOSITES and place.field == "func":
            yield f"{name} becomes {OPPOSITES[name]}", ast.Name(OPPOSITES[name], ast.Load())
        case ast.match_case() if node is not place.parent.cases[-1]:  # type: ignore[attr-defined]
            yield "case deleted", None
    if isinstance(node, ast.expr) and is_condition(place):
        yield "always true", ast.Constant(value=True)
        yield "always false", ast.Constant(value=False)


def changes_of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST | None]]:
    """Another end, or no statement at all where the next ones still find every name."""
    match node:
        case ast.Return(value=ast.expr() as value) if not is_none(value):
            yield "returns None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield()):
            yield "statement deleted", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement deleted", ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield "statement deleted", ast.Pass()


def changes_of_constant(value: object) -> Iterator[tuple[str, ast.AST | None]]:
    """Another number, the other truth, another word."""
    if isinstance(value, bool):
        yield f"{value} becomes {not value}", ast.Constant(not value)
    elif isinstance(value, int | float):
        yield f"{value} becomes {value + 1}", ast.Constant(value + 1)
    elif isinstance(value, str) and " " not in value:
        yield f"{value!r} becomes another word", ast.Constant(value + "_")


def is_condition(place: Place) -> bool:
    """Whether what stands there decides which way to go; a loop's end is not changed to never."""
    match place.parent:
        case ast.If() | ast.IfExp():
            return place.field == "test"
        case ast.comprehension():
            return place.field == "ifs"
        case ast.match_case():
            return place.field == "guard"
        case _:
            return False


def is_none(value: ast.expr) -> bool:
    """Whether it is a plain None."""
    return isinstance(value, ast.Constant) and value.value is None


def line_of(node: ast.AST, place: Place, function: ast.AST) -> int:
    """The line to look at; an operator has none of its own."""
    for each in (node, place.parent, function):
        line: int | None = getattr(each, "lineno", None)
        if line is not None:
            return line
    return 0
