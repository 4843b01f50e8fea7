"""What the docs and the deployment examples say can be run as it stands."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import click
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from mulligan.cli import cli
from mulligan.core.fleets import Exit, FleetState, KindState, SlotState
from mulligan.supervisor.decide import Phase
from mulligan.supervisor.fleet_file import OF_WORKER, TOP, AppFacts, read_fleet

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/supervisor.md").read_text()
UNIT = ROOT / "deploy" / "systemd" / "mulligan-fleet.service"
MANIFEST = ROOT / "deploy" / "kubernetes" / "workers.yaml"


def fleet(text: str):
    facts = AppFacts("sqlite:///x.db", ("default",), 100)
    return read_fleet(Path("fleet.toml"), text, lambda _app, _env: facts)


def check_command(words: list[str]) -> None:
    """Let click read the words, without running the command."""
    assert Path(words[0]).name == "mulligan"
    command = cli.get_command(click.Context(cli), words[1])
    assert command is not None, words
    command.make_context(words[1], words[2:])


def test_the_examples_of_the_page_are_good_fleets():
    short, whole = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert (fleet(short).kinds["mail"].min, fleet(short).kinds["mail"].max_concurrent) == (2, 8)
    kinds = fleet(whole).kinds
    assert list(kinds) == ["questions", "delayed", "importer"]
    assert (kinds["delayed"].max_runtime, kinds["delayed"].cooldown) == (3600, 60)


@pytest.mark.parametrize("key", sorted({*TOP, *OF_WORKER} - {"kinds"}))
def test_every_key_is_in_the_page(key):
    assert re.search(rf"(?m)^{key} = |`{key}\b", PAGE), key


def test_every_phase_of_a_slot_and_every_field_of_the_state_is_in_the_page():
    for phase in get_args(Phase):
        assert phase in PAGE
    for struct in (FleetState, KindState, SlotState, Exit):
        for field in struct.__struct_fields__:
            assert f'"{field}"' in PAGE, field


def service_of(unit: str) -> configparser.SectionProxy:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(UNIT.parent / unit)
    return found["Service"]


def test_the_systemd_unit_names_commands_that_exist():
    service = service_of(UNIT.name)
    assert service["Type"] == "notify"
    assert service["KillMode"] == "process"
    for key in ("ExecStart", "ExecStartPre"):
        check_command(shlex.split(service[key]))
    kinds = fleet((UNIT.parent / "fleet.toml").read_text()).kinds
    longest = max(kind.drain_timeout for kind in kinds.values())
    assert float(service["TimeoutStopSec"]) > longest + 5


@pytest.mark.parametrize("name", sorted(each.name for each in UNIT.parent.glob("*.service")))
def test_every_unit_is_told_when_it_is_ready_and_watched(name):
    service = service_of(name)
    words = shlex.split(service["ExecStart"])
    check_command(words)
    assert service["Type"] == "notify"
    assert float(service["WatchdogSec"]) >= 30, "longer than a task may hold a loop"
    if "--drain-timeout" in words:
        drain = float(words[words.index("--drain-timeout") + 1])
        assert float(service["TimeoutStopSec"]) > drain


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", sorted(each.name for each in UNIT.parent.glob("*.service")))
def test_systemd_has_nothing_to_say_about_a_unit(name, tmp_path):
    program = Path(sys.executable).with_name("mulligan")
    text = (UNIT.parent / name).read_text().replace("/srv/shop/.venv/bin/mulligan", str(program))
    (tmp_path / name).write_text(text.replace("User=mulligan\n", ""))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if name in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_the_kubernetes_manifests_name_commands_that_exist():
    documents = [
        each
        for file in ("workers.yaml", "server.yaml")
        for each in yaml.safe_load_all((MANIFEST.parent / file).read_text())
        if each["kind"] == "Deployment"
    ]
    assert len(documents) == 3
    for each in documents:
        pod = each["spec"]["template"]
        assert each["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
        (container,) = pod["spec"]["containers"]
        words = ["mulligan", *container["args"]]  # the image has it as its entry point
        check_command(words)
        if "--drain-timeout" in words:
            drain = float(words[words.index("--drain-timeout") + 1])
            assert pod["spec"]["terminationGracePeriodSeconds"] > drain
        ports = {port["name"]: str(port["containerPort"]) for port in container.get("ports", ())}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                asked = container[probe]["httpGet"]
                live = probe == "livenessProbe"
                assert asked["path"] == ("/healthz" if live else "/readyz")
                assert asked["port"] in ports
        if "health" in ports:
            assert ports["health"] == words[words.index("--health-port") + 1]


@pytest.mark.parametrize("file", sorted(each.name for each in MANIFEST.parent.glob("*.yaml")))
def test_a_manifest_is_as_the_schemas_of_kubernetes_want_it(file):
    for each in yaml.safe_load_all((MANIFEST.parent / file).read_text()):
        if each["apiVersion"].startswith("keda.sh"):
            continue  # whose schema is not among them
        kubernetes_validate.validate(each, "1.34", strict=True)


def test_the_scaler_of_keda_has_the_fields_that_keda_knows():
    """By hand, after KEDA's own definition; its query is asked in tests/prometheus."""
    scaler = yaml.safe_load((MANIFEST.parent / "keda.yaml").read_text())
    assert (scaler["apiVersion"], scaler["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = scaler["spec"]
    assert spec["scaleTargetRef"].keys() <= {"apiVersion", "kind", "name", "envSourceContainerName"}
    numbers = ("minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod")
    assert spec.keys() == {"scaleTargetRef", "triggers", *numbers}
    assert all(type(spec[name]) is int for name in numbers)
    [trigger] = spec["triggers"]
    assert trigger.keys() == {"type", "metricType", "metadata"}
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    told = trigger["metadata"]
    assert told.keys() >= {"serverAddress", "query", "threshold"}
    assert told.keys() <= {
        *("serverAddress", "query", "queryParameters", "threshold", "activationThreshold"),
        *("namespace", "customHeaders", "ignoreNullValues", "unsafeSsl", "timeout"),
    }
    assert all(isinstance(value, str) for value in told.values())  # a number is refused


def test_a_manifest_that_is_wrong_is_noticed():
    wrong = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


def test_autoscalers_scale_what_is_there_by_the_load_that_is_recorded():
    names = {each["metadata"]["name"] for each in yaml.safe_load_all(MANIFEST.read_text())}
    rules = (ROOT / "deploy/prometheus/mulligan.rules.yml").read_text()
    hpa_text = (MANIFEST.parent / "hpa.yaml").read_text()
    hpa = yaml.safe_load(hpa_text)["spec"]
    keda = yaml.safe_load((MANIFEST.parent / "keda.yaml").read_text())["spec"]
    assert hpa["scaleTargetRef"]["name"] in names
    assert keda["scaleTargetRef"]["name"] in names
    [trigger] = keda["triggers"]
    for text in (hpa_text, trigger["metadata"]["query"]):
        [recorded] = set(re.findall(r"queue:\w+:\w+", text))
        assert f"record: {recorded}\n" in rules


def test_the_lines_of_the_procfile_are_commands_that_exist():
    lines = (ROOT / "deploy/Procfile").read_text().splitlines()
    for line in lines:
        _, _, command = line.partition(": ")
        check_command(shlex.split(re.sub(r"\$\{\w+:-(\w+)\}", r"\1", command)))
    assert {line.partition(":")[0] for line in lines} == {"worker", "server", "release"}
