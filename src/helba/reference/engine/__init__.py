"""Operations on encrypted vectors: one interface, OpenFHE's CKKS and a simulator behind it.

scheme = get_scheme("ckks")                          # or "simulate"
keys = scheme.generate_keys(parameters, rotations=(1, 2))
engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
total = engine.add(engine.encrypt([1, 2]), engine.encrypt([3, 4]))
engine.decrypt(total, secret_key=keys.secret)
"""

from helba.reference.engine.engine import Engine
from helba.reference.engine.exchanges.opening import OpeningReply, OpeningRequest, PendingOpening
from helba.reference.engine.exchanges.refresh import PendingRefresh, RefreshReply, RefreshRequest
from helba.reference.engine.keys import (
    EvaluationKey,
    KeyPair,
    KeySet,
    PublicKey,
    Recipient,
    ReencryptionKey,
    SecretKey,
)
from helba.reference.engine.scheme import SCHEMES, Scheme, get_scheme
from helba.reference.engine.tally import Tally
from helba.reference.engine.vector import EncryptedVector

__all__ = [
    "SCHEMES",
    "EncryptedVector",
    "Engine",
    "EvaluationKey",
    "KeyPair",
    "KeySet",
    "OpeningReply",
    "OpeningRequest",
    "PendingOpening",
    "PendingRefresh",
    "PublicKey",
    "Recipient",
    "ReencryptionKey",
    "RefreshReply",
    "RefreshRequest",
    "Scheme",
    "SecretKey",
    "Tally",
    "get_scheme",
]
