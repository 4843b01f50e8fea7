"""Runs commands one after the other, each in a fork of this process, which has imported the rest.

    python -m tests.cli.forked '[["status", "--json"], ["jobs"]]'

Prints [exit code, standard output, standard error] of each as JSON. A fork has streams, encodings
and an end of its own as any process has, and takes a fraction of the time to start.
"""

import gc
import json
import os
import sys
import tempfile
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import mulligan.cli
import mulligan.stores.sqlite

OUTPUT, ERRORS = 1, 2


def main() -> None:
    """Run each of the commands; a fork leaves as the command does."""
    for module in iter_modules(mulligan.cli.__path__, "mulligan.cli."):
        import_module(module.name)
    gc.collect()
    gc.freeze()  # what is not looked at is not copied into each fork
    answers = []
    for words in json.loads(sys.argv[1]):
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            pid = os.fork()
            if not pid:
                os.dup2(output.fileno(), OUTPUT)
                os.dup2(errors.fileno(), ERRORS)
                sys.argv = ["mulligan", *words]
                mulligan.cli.main()
                return
            _, status = os.waitpid(pid, 0)
            answers.append([os.waitstatus_to_exitcode(status), whole(output), whole(errors)])
    sys.stdout.write(json.dumps(answers))  # in ASCII, which every encoding has


def whole(file: Any) -> str:
    """All that was written to the file, a character for each byte."""
    file.seek(0)
    return str(file.read().decode("latin-1"))


if __name__ == "__main__":
    main()
