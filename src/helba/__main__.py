"""`python -m helba` is the command `helba`."""

import sys

from helba.cli import main

if __name__ == "__main__":
    sys.exit(main())
