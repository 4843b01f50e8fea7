"""What the source may not do, looked for in its syntax: run data as code, build SQL from values."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import mulligan
from tests.django.project import set_up

SOURCE = Path(mulligan.__file__).parent
RUNS_DATA = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
RUNS_SQL = {"execute", "executemany", "executescript", "exec_driver_sql"}
RUNS_COMMANDS = {"system", "popen", "getoutput", "getstatusoutput"}

# Where something is imported whose name is not written there, and where that name comes from.
IMPORTS_BY_NAME = {
    "app/child.py": "the module of the app, in a process of its worker's",
    "cli/group.py": "a command of the table in cli/__init__.py",
    "cli/bench_run.py": "a constant, imported late",
    "cli/find_app.py": "the APP of the command line, which its user wants to run",
    "stores/__init__.py": "an engine of the table ENGINES",
    "contrib/django/compat.py": "constants: Django's tasks, or the package that has them",
    "contrib/django/registry.py": "modules that the settings of a project name",
    "testing/named.py": "the app that a project's ini file names",
}
# Where SQL is more than a constant, and why no value of a user's can be in it.
BUILDS_SQL = {
    ("contrib/django/database.py", "IDENTITY"): "a constant of the store",
    ("stores/postgres/user_transaction.py", "text.encode()"): "of `statement`, the schema quoted",
    ("stores/postgres/user_transaction.py", "text"): "as above",
    ("stores/postgres/user_transaction.py", "sqlalchemy_text(text)"): "as above",
    (
        "stores/sqlite/user_transaction.py",
        "f'BEGIN {connection.isolation_level}'",
    ): "the driver's own word for it",
    ("stores/sqlite/user_transaction.py", "statement"): "a constant of the store",
    ("stores/postgres/pool.py", "query.encode()"): "from Statements",
    ("stores/postgres/one_job.py", "server"): "a connection of the driver's, and no statement",
    ("stores/postgres/producer.py", "self._accept"): "from Statements",
    ("stores/postgres/producer.py", "*set_for_session(settings)"): "constants of session.py",
    ("stores/postgres/pool.py", "*set_for_session(settings)"): "as above",
    ("stores/postgres/pool.py", "*set_for_transaction(self._settings(connection))"): "as above",
    ("stores/postgres/pool.py", "BEGIN_READ_ONLY if self.read_only else BEGIN"): "two constants",
    ("stores/postgres/commit.py", "statement.encode()"): "from Statements",
    ("stores/postgres/schema.py", "here.encode()"): "a file of the package, the schema quoted",
    ("stores/postgres/sweep.py", "statement"): "composed by psycopg of names in constants",
    ("sim/attempts.py", "CREATE"): "a constant of the module; nothing comes from outside",
    ("sim/attempts.py", "INSERT"): "as above",
    ("sim/attempts.py", "query"): "constants of the modules of sim, with parameters",
    ("sim/attempts.py", "f'PRAGMA cache_size = -{CACHE}'"): "a constant",
    (
        "testing/scratch.py",
        "drop.format(sql.Identifier(read.schema))",
    ): "composed by psycopg; the name is made here",
    ("stores/sqlite/schema.py", "statement"): "a statement of a file of the package",
    ("stores/sqlite/schema.py", "f'PRAGMA user_version = {len(STEPS)}'"): "a number",
    ("stores/sqlite/connection.py", "'BEGIN IMMEDIATE' if writes else 'BEGIN'"): "two constants",
    ("stores/sqlite/connection.py", "f'PRAGMA cache_size = -{CACHE_KIB}'"): "a constant",
    ("stores/sqlite/reader.py", "f'PRAGMA cache_size = -{CACHE_KIB}'"): "as above",
    ("stores/sqlite/read.py", "statement"): "one of two constants",
    ("stores/sqlite/operate.py", "statement"): "as above",
    ("stores/sqlite/rows.py", "statement"): "a constant of the module",
    ("stores/sqlite/row_writer.py", "statement"): "as above",
    ("stores/sqlite/limit_states.py", "statement"): "a constant of the module",
}


@cache
def files() -> list[tuple[str, ast.Module]]:
    """Every module's path and syntax."""
    return [
        (str(path.relative_to(SOURCE)), ast.parse(path.read_text()))
        for path in sorted(SOURCE.rglob("*.py"))
    ]


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Every call: where it is, and the last word of what it calls."""
    for path, tree in files():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = node.func
                yield path, node, str(getattr(called, "attr", getattr(called, "id", "")))


def test_there_is_something_to_look_at():
    assert len(files()) > 150


def test_nothing_that_turns_data_into_objects_or_code_is_imported():
    for path, tree in files():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(each.name for each in node.names)]
            assert not {name.partition(".")[0] for name in names} & RUNS_DATA, path


def test_no_text_is_run_as_code_or_by_a_shell():
    for path, node, name in calls():
        where = f"{path}:{node.lineno}"
        builtin = isinstance(node.func, ast.Name)
        assert not (builtin and name in RUNS_TEXT), where
        assert name not in RUNS_COMMANDS, where
        shell = [each for each in node.keywords if each.arg == "shell"]
        assert not shell, where


def test_modules_are_imported_by_name_where_the_name_is_no_ones_data():
    found = {path for path, _, name in calls() if name == "import_module"}
    assert found == set(IMPORTS_BY_NAME)


def modules() -> Iterator[ModuleType]:
    set_up()  # some belong into a project of Django's
    for info in pkgutil.walk_packages(mulligan.__path__, "mulligan."):
        if info.name.rpartition(".")[2] != "__main__":
            yield importlib.import_module(info.name)


def test_no_module_holds_one_that_unpickles():
    for module in modules():
        for name, value in vars(module).items():
            home = value.__name__ if isinstance(value, ModuleType) else ""
            home = home or str(getattr(value, "__module__", ""))
            assert home.partition(".")[0] not in RUNS_DATA, f"{module.__name__}.{name}"


# -- SQL, Lua and MongoDB ----------------------------------------------------------------------


def constants(tree: ast.Module) -> set[str]:
    """Names that a module gives to texts, or to statements that it loads from files."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            named = isinstance(value, ast.Subscript) and ast.unparse(value.value) in found
            loads = isinstance(value, ast.Call) and ast.unparse(value.func) == "load"
            if named or loads or isinstance(value, ast.Constant):
                found.add(node.targets[0].id)
    return found


def is_composed(node: ast.expr) -> bool:
    """Whether it is psycopg's own composition, `sql.SQL("...")`, of a text that is written there.

    What it is formatted with is quoted as an identifier.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if ast.unparse(node.func) == "sql.SQL":
            return isinstance(node.args[0], ast.Constant)
        return node.func.attr == "format" and is_composed(node.func.value)
    return False


def statements() -> Iterator[tuple[str, str]]:
    """Every statement that is run and is not plainly a constant."""
    known = {path: constants(tree) for path, tree in files()}
    for path, node, name in calls():
        if name not in RUNS_SQL or not node.args:
            continue
        said = node.args[0]
        plain = isinstance(said, ast.Constant) or is_composed(said)
        named = isinstance(said, ast.Name) and said.id in known[path]
        if not (plain or named):
            yield path, ast.unparse(said)


def test_sql_is_constant_and_values_are_parameters():
    assert set(statements()) == set(BUILDS_SQL), "give the reason in BUILDS_SQL, or use parameters"


def test_the_schema_of_postgres_is_quoted_and_checked():
    from mulligan.stores.postgres.statements import Statements  # noqa: PLC0415 - its driver

    text = Statements('a"; DROP TABLE job; --')["leave"]
    quoted, _, call = text.rpartition(".")
    assert quoted == 'SELECT * FROM "a""; DROP TABLE job; --"'
    assert call == "leave(given => %s::bigint, in_worker => %s::text)"


def test_functions_of_postgres_run_no_statement_that_they_put_together():
    for path in sorted((SOURCE / "stores/postgres").rglob("*.sql")):
        code = re.sub(r"--.*", "", path.read_text())
        # EXECUTE FUNCTION is how a trigger names its function
        assert not re.search(r"\bEXECUTE\b(?!\s+(FUNCTION|PROCEDURE)\b)", code), path.name


def test_lua_is_files_of_the_package_and_values_are_arguments():
    folder = SOURCE / "stores/redis/lua"
    for path, node, name in calls():
        if path.startswith("stores/redis/") and name in ("run", "_run") and node.args:
            said = node.args[0]
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                assert (folder / f"{said.value}.lua").exists(), ast.unparse(node)
            else:
                # what passes a name on, from one of the calls above
                assert ast.unparse(said) == "name", f"{path}:{node.lineno}"
    for lua in folder.rglob("*.lua"):
        assert not re.search(r"\b(loadstring|load|dofile|require)\s*\(", lua.read_text()), lua.name


def test_mongodb_is_asked_nothing_that_runs_code():
    for path, tree in files():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = ("$where", "$function", "$accumulator", "mapReduce")
                assert node.value not in words, f"{path}:{node.lineno}"
