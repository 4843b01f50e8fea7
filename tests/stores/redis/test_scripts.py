"""How scripts are put together."""

import re
from pathlib import Path

import pytest

from mulligan.stores.redis import scripts

LUA = Path(scripts.__file__).parent / "lua"
OPERATIONS = sorted(path.stem for path in LUA.glob("*.lua"))
SHARED = sorted(path.stem for path in (LUA / "shared").glob("*.lua"))


def source_of(name: str, *, tolerant: bool = False) -> str:
    return scripts.script(name, tolerant=tolerant).source.decode()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_script_has_each_shared_file_once_and_after_those_it_includes(name):
    source = source_of(name)
    for line in re.findall(r"^-- include: (.+)$", source, re.MULTILINE):
        for included in line.split(", "):
            text = scripts.read(f"shared/{included}.lua")
            assert source.count(text) == 1
            assert source.index(text) < source.index(f"-- include: {line}")


def test_every_shared_file_is_used_by_some_script():
    sources = [source_of(name) for name in OPERATIONS] + [source_of("facts", tolerant=True)]
    for name in SHARED:
        text = scripts.read(f"shared/{name}.lua")
        assert any(text in source for source in sources), name


def test_every_shared_function_is_used_by_some_script():
    sources = [source_of(name) for name in OPERATIONS]
    for name in SHARED:
        for function in re.findall(
            r"^local function (\w+)", scripts.read(f"shared/{name}.lua"), re.MULTILINE
        ):
            assert any(len(re.findall(rf"\b{function}\b", each)) > 1 for each in sources), function
