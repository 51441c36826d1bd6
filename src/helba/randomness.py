"""The source of random bytes: an argument of every party, which tests and simulations replace.

Encryption is not among it: OpenFHE, sealed boxes and garbling on ciphertexts draw for themselves.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

Draw = Callable[[int], bytes]
"""Returns so many bytes: independent and uniform, or what they protect is not protected."""

draw_bytes: Draw = secrets.token_bytes
