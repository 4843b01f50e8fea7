"""Builds the site: Sphinx with the arguments given.

It ends without collecting garbage: when all is written, the interpreter has crashed in doing so,
among the structs of msgspec that autodoc has looked at.
"""

import os
import sys

from sphinx.cmd.build import main

if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
