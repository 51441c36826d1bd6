"""6. Two users with keys of their own: enrol, play, revoke, rotate.

Run: .venv/bin/python examples/6_two_users_with_their_own_keys.py
"""

import numpy as np

import helba
from helba.errors import HelbaError
from helba.reference.protocol import Authority
from helba.reference.protocol.bandit import deployment_for
from helba.reference.protocol.wire.codec import Codec

settings = helba.settings_for(helba.make_problem("toy", seed=0), horizon=130)
deployment = deployment_for(settings)
codec = Codec(deployment)
authority = Authority(deployment)  # makes the collective keys; it never sees a ciphertext
alice, bob = authority.make_user("alice"), authority.make_user("bob")  # each makes its own pair
server = authority.make_server()  # has a re-encryption key for each of them, and no secret key
print(*authority.members)

contexts = np.array([[0.6, 0.3], [-0.2, 0.8]])


def answer_to(user):
    """Ask and return the answer, or the refusal."""
    terms = user.read_notice(server.notice())
    return server.receive(user.ask(contexts, terms=terms))[0]


def help_with_update(user):
    """Do what the server needs: masked values, under the helper's own key."""
    while tasks := server.tasks(user.id):
        for task in tasks:
            server.receive(user.help(task))


# Both ask with the same contexts. The answers are equal in length and different in every byte that
# matters: each is encrypted under the key of its user, who alone can read it.
answers = {user.id: answer_to(user) for user in (alice, bob)}
arms = {}
for name, user in (("alice", alice), ("bob", bob)):
    recommendation = user.read(answers[user.id])
    arms[name] = recommendation.arm
    if recommendation.reply is not None:
        server.receive(recommendation.reply)
    played = contexts[recommendation.arm]
    server.receive(user.report(recommendation.round, context=played, reward=0.5))
    help_with_update(user)
    print(f"{name} plays arm {recommendation.arm}; the server has {server.samples} rewards")
try:
    alice.read(answers[bob.id])
except HelbaError as error:
    print(f"alice and bob's answer: {error}")

# The server counts what it cannot read.
for name, held in (("V", server.design), ("g", server.response), ("model", server.model.scoring)):
    print(f"{name:5} {held}")

# Revoking deletes bob's re-encryption key at the server. What bob reported stays in the model.
server.revoke(authority.revoke("bob"))
print(f"bob is told: {codec.decode(answer_to(bob)).reason}")

# A server that had kept bob's key could still use it, until the collective key is rotated.
before = alice.read(answer_to(alice)).arm
server.rotate(authority.rotate())
alice.adopt(authority.public_key_bytes())
after = alice.read(answer_to(alice)).arm
print(f"alice's arm before and after the rotation: {before} and {after}")
print(f"{server.status().bits} bits have come back, of {server.status().bit_budget} at most")
assert before == after
assert server.samples == 2
