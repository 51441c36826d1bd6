"""CKKS by OpenFHE. This package is the only one that imports openfhe."""

import os

# Threads that wait spin a little, some tens of microseconds, and then sleep. Those that never sleep
# are several times slower beside another busy process; those that never spin take half as long
# again. OpenMP reads this when OpenFHE is loaded, so it comes first.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

from helba.reference.engine.ckks.scheme import CkksScheme

__all__ = ["CkksScheme"]
