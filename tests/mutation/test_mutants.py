import ast

import pytest

from tests.mutation.mutants import mutants_of
from tests.mutation.trial import code_of

MODULE = '''
"""A module."""
LIMIT = 3
class Gate:
    """A gate."""
    def room(self, held: int) -> int:
        """How many more."""
        if held > LIMIT:
            raise ValueError(f"held {held} is above the limit")
        return max(0, LIMIT - held)
'''

CASES = """
def f(x):
    match x:
        case 1:
            g()
        case _:
            h()
"""


def variants(source: str) -> list[tuple[str, str]]:
    """What each mutant of the source says that it changes, and the text that it gives."""
    found = []
    for number, mutant in enumerate(mutants_of(ast.parse(source))):
        tree = ast.parse(source)
        list(mutants_of(tree))[number].apply()
        found.append((mutant.change, ast.unparse(tree)))
    return found


def test_a_mutant_differs_from_its_module_in_one_place():
    original = ast.unparse(ast.parse(MODULE)).splitlines()
    for change, text in variants(MODULE):
        differing = [line for line in text.splitlines() if line not in original]
        assert len(differing) == 1, change


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("Gt becomes GtE", "if held >= LIMIT:"),
        ("always true", "if True:"),
        ("always false", "if False:"),
        ("statement deleted", "pass"),
        ("returns None", "return None"),
        ("max becomes min", "return min(0, LIMIT - held)"),
        ("0 becomes 1", "return max(1, LIMIT - held)"),
        ("Sub becomes Add", "return max(0, LIMIT + held)"),
    ],
)
def test_each_kind_of_change_is_made_where_it_applies(change, line):
    assert any(said == change and line in text for said, text in variants(MODULE))


def test_nothing_else_is_changed_neither_wording_nor_what_stands_outside_of_functions():
    assert len(variants(MODULE)) == 8


def test_a_case_is_deleted_unless_it_is_the_last():
    assert [text for said, text in variants(CASES) if said == "case deleted"] == [
        "def f(x):\n    match x:\n        case _:\n            h()"
    ]


def test_the_code_of_a_method_is_found_in_its_module():
    code = code_of(compile(MODULE, "gate.py", "exec"), "Gate.room")
    assert code.co_qualname == "Gate.room"
