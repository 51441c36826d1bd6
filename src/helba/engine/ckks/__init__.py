"""CKKS by OpenFHE. This package is the only one that imports openfhe."""

import os

# Threads that spin while they wait are several times slower beside another busy process, and hardly
# faster alone. OpenMP reads this when OpenFHE is loaded, so it comes first.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from helba.engine.ckks.scheme import CkksScheme

__all__ = ["CkksScheme"]
