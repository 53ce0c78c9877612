"""`python -m nfqa`: the command `nfqa`."""

import sys

from nfqa.cli import main

if __name__ == "__main__":
    sys.exit(main())
