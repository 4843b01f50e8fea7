"""What is built says where the project is, and what it says can be read away from the sources."""

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    return folder


@pytest.fixture
def wheel(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as opened:
        yield opened


def metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def test_the_description_has_no_link_that_leads_nowhere_outside_the_sources(wheel):
    described = str(metadata(wheel).get_payload())
    links = re.findall(r"\]\(([^)]+)\)", described)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []


def test_what_is_built_names_its_pages_and_every_version_of_python(wheel):
    said = metadata(wheel)
    urls = dict(each.split(", ") for each in said.get_all("Project-URL", []))
    assert {"Documentation", "Source", "Issues", "Changelog"} <= set(urls)
    assert said["Requires-Python"] == ">=3.11"


PACKAGES = {"mulligan", "pytest_mulligan"}


def test_the_wheel_holds_the_package_with_its_pytest_plugin_and_nothing_else(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top.partition("-")[0] for top in tops} == PACKAGES
    sources = [path for top in PACKAGES for path in (PROJECT / "src" / top).rglob("*.*")]
    files = {str(path.relative_to(PROJECT / "src")) for path in sources if path.is_file()}
    ours = {name for name in wheel.namelist() if name.partition("/")[0] in PACKAGES}
    assert {f"{top}/py.typed" for top in PACKAGES} <= ours
    assert ours == {name for name in files if "__pycache__" not in name}


def test_the_sdist_holds_what_its_tests_need(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Makefile", "requirements/dev.txt", "tests/conftest.py", "README.md", "CHANGELOG.md"}
    assert needed <= names


def test_import_mulligan_imports_itself_msgspec_and_no_heavy_module():
    code = (
        "import sys; before = set(sys.modules); import mulligan;"
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-I", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - set(sys.stdlib_module_names) <= {"mulligan", "msgspec", "typing_extensions"}
    heavy = {"asyncio", "sqlite3", "ssl", "subprocess", "multiprocessing", "email", "http", "json"}
    assert heavy & packages == set()
    layers = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("mulligan.")}
    assert layers == {"mulligan.app", "mulligan.core", "mulligan.engine", "mulligan.stores"}
