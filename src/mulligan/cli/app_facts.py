"""The facts about an app that a supervisor needs, read by another process.

A supervisor outlives many releases of an app. It must not keep the first one imported, nor fail
with one that cannot be imported.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

import msgspec

from mulligan.core.errors import InvalidError, MulliganError
from mulligan.supervisor.fleet_file import AppFacts

ANSWER_WITHIN = 60.0


class Answer(msgspec.Struct):
    """The facts, or why there are none."""

    facts: AppFacts | None = None
    refused: str = ""


def read_app_facts(app: str, env: Mapping[str, str]) -> AppFacts:
    """Import the app in another process, with these variables; refused if that fails."""
    try:
        child = subprocess.run(  # noqa: S603 - this very module
            [sys.executable, "-m", "mulligan.cli.app_facts", app],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidError(f"app {app!r} was not imported within {ANSWER_WITHIN:g} s") from error
    try:
        # The app may print; the answer is the last line.
        answer = msgspec.json.decode(child.stdout.splitlines()[-1], type=Answer)
    except (IndexError, msgspec.MsgspecError) as error:
        said = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        raise InvalidError(f"app {app!r} cannot be imported: {said}") from error
    if answer.facts is None:
        raise InvalidError(answer.refused)
    return answer.facts


def main() -> None:
    """Print the facts about the app that the command line names."""
    from mulligan.cli.find_app import load_app  # noqa: PLC0415 - the parent process needs none of it

    try:
        app = load_app(sys.argv[1])
    except MulliganError as error:
        answer = Answer(refused=str(error))
    else:
        answer = Answer(AppFacts(app.url, app.queue_names, app.settings.concurrency))
    print(msgspec.json.encode(answer).decode())


if __name__ == "__main__":
    main()
