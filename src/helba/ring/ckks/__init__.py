"""The ring on OpenFHE. Importing it loads OpenFHE; `helba.ring` does so when a key asks for it."""

import os

# Polynomials of 2^13 coefficients gain nothing from a second thread, and lose a lot beside another
# busy process: several processes of one thread each do. OpenMP reads this when OpenFHE is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
