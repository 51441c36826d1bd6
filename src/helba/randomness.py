"""Where random bytes come from: an argument of every party, which tests and simulations replace.

What the library behind encryption draws for itself (OpenFHE, libsodium) is not among it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

Draw = Callable[[int], bytes]
"""Returns so many bytes: independent and uniform, or what they protect is not protected."""

draw_bytes: Draw = secrets.token_bytes
