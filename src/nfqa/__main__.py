"""`python -m nfqa`: the commands behind the Makefile."""

import sys
from io import TextIOWrapper

from nfqa.lab.cli import main

if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):  # what a terminal or a pipe can't show is written as an escape
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
