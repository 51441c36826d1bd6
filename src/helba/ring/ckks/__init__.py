"""The ring on OpenFHE. Importing it loads OpenFHE; `helba.ring` does so when a key asks for it.

OMP_NUM_THREADS says how many threads a process may use, all cores if it is not set. They run whole
operations side by side (`thread`): OpenFHE's own threads gain little on polynomials of 2^13
coefficients, and lose a lot beside another busy process. OpenMP reads the variable when OpenFHE is
loaded, and is told one thread then, unless the reference profiles have loaded it before.
"""

import os

from helba.ring.ckks.thread import set_threads

_wanted = os.environ.get("OMP_NUM_THREADS")
set_threads(_wanted)
os.environ["OMP_NUM_THREADS"] = "1"
try:
    import openfhe  # noqa: F401
finally:
    if _wanted is None:
        del os.environ["OMP_NUM_THREADS"]
    else:
        os.environ["OMP_NUM_THREADS"] = _wanted
