"""`python -m helba` is the command `helba`."""

import sys


def main() -> int:
    """Run the command line and return its exit code, also where loading it is interrupted."""
    try:
        from helba.cli import main as run
    except KeyboardInterrupt:
        print("helba: interrupted", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
