"""`python -m reproduction`: the commands of a checkout."""

import sys

from reproduction.cli import main

if __name__ == "__main__":
    sys.exit(main())
