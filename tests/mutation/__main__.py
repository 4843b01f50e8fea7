"""`python -m tests.mutation --module core/decide.py --sample 100 --seed 1`: does a test notice?

Changes one thing at a time in the core, the rules and the memory store, and runs the tests that
reach it.
Says which changes no test noticed; exit code 1 if fewer were noticed than `--at-least` asks for.
"""
# ruff: noqa: T201 - a command-line tool speaks by printing

import argparse
import ast
import contextlib
import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import mulligan
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.trial import Target, Trials, Verdict

ROOT = Path(mulligan.__file__).parent
# What is mutated, and the tests that are to notice.
PACKAGES = {
    "core": ("tests/core",),
    "stores/memory": ("tests/contract", "tests/stores/memory"),
    "stores/rules": ("tests/contract", "tests/stores/memory"),
}
# The memory store is what others are compared with, so that comparing it says nothing about it.
LEFT_OUT = "tests/contract/test_against_memory.py"
OTHER_STORES = "not sqlite and not redis and not postgres and not mongo"


def main() -> None:
    """Try mutants, show those that survive, and count."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--module", type=module_at, action="append", help="such as core/decide.py; all if left out"
    )
    parser.add_argument("--sample", type=int, help="at most so many mutants of each module")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are in the sample")
    parser.add_argument("--at-least", type=float, default=85, help="per cent that must be noticed")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    paths = options.module or [
        path for package in PACKAGES for path in sorted((ROOT / package).glob("*.py"))
    ]
    targets = [target_of(path, options.sample, options.seed) for path in paths]
    found = try_all(targets)
    result = summary(found)
    print(json.dumps(result, indent=2)) if options.as_json else show(result)
    sys.exit(result["noticed"] < options.at_least)


def module_at(name: str) -> Path:
    """The file of a module, by its path in the package."""
    path = ROOT / name
    if not path.is_file() or str(path.parent.relative_to(ROOT)) not in PACKAGES:
        places = " or ".join(PACKAGES)
        raise argparse.ArgumentTypeError(f"{name} is no module in {places}, such as core/decide.py")
    return path


def target_of(path: Path, sample: int | None, seed: int) -> Target:
    """A module with its mutants, or a sample of them: of one seed always the same."""
    tree = ast.parse(path.read_text())
    mutants = list(mutants_of(tree))
    if sample is not None and sample < len(mutants):
        chosen = random.Random(f"{seed} {path.name}").sample(range(len(mutants)), sample)
        mutants = [mutants[index] for index in sorted(chosen)]
    return Target(path, tree, mutants, PACKAGES[str(path.parent.relative_to(ROOT))])


def try_all(targets: list[Target]) -> list[dict[str, Any]]:
    """Run the tests on each mutant; what became of each, with the line that it changes."""
    found: list[dict[str, Any]] = []
    total = sum(len(target.mutants) for target in targets)

    def tell(target: Target, mutant: Mutant, verdict: Verdict) -> None:
        lines = target.path.read_text().splitlines()
        found.append(
            {
                "module": str(target.path.relative_to(ROOT)),
                "line": mutant.line,
                "function": mutant.function,
                "text": lines[mutant.line - 1].strip(),
                "change": mutant.change,
                "verdict": verdict,
            }
        )
        if verdict in ("survived", "unreached"):
            print(f"\r{described(found[-1])}", file=sys.stderr)
        noticed = sum(each["verdict"] in ("killed", "hung") for each in found)
        print(f"\r{len(found)} of {total}, {noticed} noticed", end="", file=sys.stderr, flush=True)

    trials = Trials(targets, tell)
    tests = sorted({each for target in targets for each in target.tests})
    arguments = [*tests, "--ignore", LEFT_OUT, "-k", OTHER_STORES, "-q", "-p", "no:cacheprovider"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        pytest.main([*arguments, "--hypothesis-seed=0"], plugins=[trials])
    print(file=sys.stderr)
    if trials.broken or len(found) < total:
        why = "\n".join(trials.broken) or said.getvalue()
        sys.exit(f"the tests must pass on the code as it is; these do not:\n{why}")
    return found


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """How many were noticed, of each module and in all, and which were not."""
    modules: dict[str, dict[str, int]] = {}
    for each in found:
        counts = modules.setdefault(each["module"], {"mutants": 0, "noticed": 0})
        counts["mutants"] += 1
        counts["noticed"] += each["verdict"] in ("killed", "hung")
    noticed = sum(counts["noticed"] for counts in modules.values())
    return {
        "mutants": len(found),
        "noticed": round(100 * noticed / max(1, len(found)), 1),
        "modules": modules,
        "survivors": [each for each in found if each["verdict"] in ("survived", "unreached")],
    }


def described(each: dict[str, Any]) -> str:
    """A survivor, with the line to look at."""
    where = f"{each['module']}:{each['line']} {each['function']}"
    return f"{each['verdict']} {where}: {each['change']}\n    {each['text']}"


def show(result: dict[str, Any]) -> None:
    """The same for people, who have seen the survivors go by."""
    for module, counts in result["modules"].items():
        print(f"{module:<30} {counts['noticed']:>5} of {counts['mutants']}")
    print(f"{result['noticed']} % of {result['mutants']} mutants noticed")


if __name__ == "__main__":
    main()
