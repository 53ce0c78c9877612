"""`python -m reproduction`: the commands of a checkout."""

import sys

if __name__ == "__main__":
    try:
        from reproduction.cli import main

        sys.exit(main())
    except KeyboardInterrupt:  # while modules are imported
        sys.exit(130)
