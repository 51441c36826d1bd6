"""At which p-value a statistical test calls something found.

Where all draws are seeded, a statistic is the same in every run. OpenFHE's draws, and those of
tests that seed nothing, are new in every run: some two hundred statistics must then all stay
plausible, so that a limit of 1e-4 would fail one run in fifty for nothing.
"""

PLAUSIBLE = 1e-4
PLAUSIBLE_ANEW = 1e-6
# Of what must be seen once a protection is off.
SHOWN = 1e-9
