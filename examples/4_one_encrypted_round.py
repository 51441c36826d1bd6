"""4. A round by hand: server, user and opener, and every message between them.

Run: .venv/bin/python examples/4_one_encrypted_round.py
"""

import secrets
import time

import numpy as np

import helba
from helba.authority.authority import Authority, make_authority_keys
from helba.opener.opener import OpenerParty
from helba.protocol.codec import Codec
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY, SERVER
from helba.server.server import Server
from helba.user.user import User

# What everybody agrees on before the first key is made: the problem's bounds, and from them a plan
# at 128 bits of security. Nothing in it is secret.
problem = helba.make_problem("toy", seed=0)
deployment = SharesDeployment.of(
    helba.settings_for(problem, horizon=130), opener="authority", security=128
)
plan = deployment.plan
ring_dim = plan.parameters.ring_dim
print(f"N = {ring_dim}, scores of {plan.score_bits} bits, {plan.lanes} users at once")

# The authority makes the keys and is the opener: it alone can decrypt, and sees masked numbers.
# The server has public keys. The user has no key of the ring at all: it sends shares, and seals
# the seed of their pads to the opener.
authority = Authority(deployment, keys=make_authority_keys(deployment))
server = Server(deployment, ring=authority.make_ring())
opener = OpenerParty(
    deployment, opener=authority.make_opener(), sealing_key=authority.private_sealing_key
)
user = User(deployment, id=secrets.token_bytes(16), sealing_key=authority.sealing_key)
codec = Codec(deployment, public_key=authority.public_key)
server.add_helper(AUTHORITY)

# The user asks the authority to take part, and the authority tells the server.
(enrol,) = user.enrol().replies
(admission,) = authority.handle(enrol.message, sender=user.id).replies
(receipt,) = server.handle(admission.message, sender=AUTHORITY, now=0.0).replies
user.handle(receipt.message)


def settle(effects):
    """Deliver what a user sends, and all that server and opener say to each other about it."""
    waiting = [(user.id, envelope.message) for envelope in effects.replies]
    to_user = []
    while waiting:
        sender, message = waiting.pop(0)
        who = "user  " if sender == user.id else "opener"
        size = len(codec.encode(message))
        print(f"  {who} -> server: {type(message).__name__:11} {size:7} bytes")
        # A party is a state machine. What it changes would be stored before what it sends is sent.
        now = time.monotonic()
        effects = server.handle(message, sender=sender, now=now)
        for envelope in [*effects.replies, *server.work(now=now).replies]:
            size = len(codec.encode(envelope.message))
            whom = "user  " if envelope.to == user.id else "opener"
            print(f"  server -> {whom}: {type(envelope.message).__name__:11} {size:7} bytes")
            if envelope.to == user.id:
                to_user.append(envelope.message)
            else:
                replies = opener.handle(envelope.message, sender=SERVER).replies
                waiting += [(envelope.to, reply.message) for reply in replies]
    return to_user


for number, shown in enumerate(problem.rounds(2), start=1):
    # The user asks. The opener encrypts the pads, the server adds its shares, multiplies by the
    # model, opens behind a mask, and both compare in a garbled circuit. Each has half of the
    # answer.
    print(f"round {number}: ask")
    (answer,) = settle(user.ask(shown.contexts))
    (recommended,) = user.handle(answer).changes
    arm = recommended.arm

    # The user plays the arm and reports what it earned. The server folds the report into its sums,
    # and updates its model when that is due: seven or so exchanges with the opener.
    print(f"round {number}: arm {arm}, report")
    settle(user.report(shown.contexts[arm], float(shown.rewards[arm])))
    print("  the server holds", server.state.learned.model)

    # An empty model knows only the lengths of the contexts: the longest is the most uncertain.
    if number == 1:
        assert arm == int(np.argmax(np.linalg.norm(shown.contexts, axis=1)))

print("the server holds", server.state.learned.design.only)
print(f"{server.state.samples} reports, {server.state.updates} updates")
print(opener, "of its own judgement: tests, checks, ranges of reports")
assert server.state.samples == 2
assert server.state.updates >= 1
