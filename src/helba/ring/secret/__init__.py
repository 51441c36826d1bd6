"""Secret keys, and what they allow: to open, and to encrypt again.

Server, users and all that they import do without this package; `lint-imports` holds them to it.
"""

from __future__ import annotations

from helba.ring.secret.key import KeyPair, SecretKey, make_keys, make_reencryption_key
from helba.ring.secret.opener import Opener

__all__ = ["KeyPair", "Opener", "SecretKey", "make_keys", "make_reencryption_key"]
