"""`python -m mulligan` is the command line."""

from mulligan.cli import main

if __name__ == "__main__":
    main()
