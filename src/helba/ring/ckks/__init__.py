"""The ring on OpenFHE. Importing it loads OpenFHE; `helba.ring` does so when a key asks for it.

OMP_NUM_THREADS says how many threads a process may use, all cores if it is not set. They run whole
operations side by side (`thread`): OpenFHE's own threads gain little on polynomials of 2^13
coefficients, and lose a lot beside another busy process, so it gets one. OpenMP reads that when
OpenFHE is loaded, and processes that are started from here inherit it.
"""

import os

from helba.ring.ckks.thread import set_threads

set_threads(os.environ.get("OMP_NUM_THREADS"))
os.environ["OMP_NUM_THREADS"] = "1"
