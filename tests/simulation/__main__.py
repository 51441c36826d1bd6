"""`python -m tests.simulation`; its processes load `play`, which no process can from here."""

import sys

from tests.simulation.play import main

if __name__ == "__main__":
    sys.exit(main())
