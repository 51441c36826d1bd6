"""The parties and what they say to each other.

`Authority` makes the keys, `User` encrypts, decrypts and acts, `Server` computes on ciphertexts.
They exchange bytes only (`messages`). `EncryptedBandit` plays all three in one process:

    bandit = EncryptedBandit(settings, engine="ckks")
    arm = bandit.select(contexts)
    bandit.update(contexts[arm], reward)
"""

from helba.protocol.authority import Authority
from helba.protocol.bandit import EncryptedBandit
from helba.protocol.deployment import Deployment
from helba.protocol.server import Server
from helba.protocol.user import Recommendation, User

__all__ = ["Authority", "Deployment", "EncryptedBandit", "Recommendation", "Server", "User"]
