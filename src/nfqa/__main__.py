"""`python -m nfqa`: the commands behind the Makefile."""

import sys

from nfqa.lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
