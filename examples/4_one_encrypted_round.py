"""4. A round by hand: an authority, a server and a user, and every message between them.

Run: .venv/bin/python examples/4_one_encrypted_round.py
"""

import numpy as np

import helba
from helba.protocol.bandit import deployment_for

# What everybody agrees on before the first key is made: the problem's bounds, and from them CKKS
# parameters at 128 bits of security. Nothing in it is secret.
problem = helba.make_problem("toy", seed=0)
settings = helba.settings_for(problem, horizon=130)
deployment = deployment_for(settings, engine="ckks", security=128, latency="single")
parameters = deployment.parameters
print(f"N = {parameters.ring_dim}, log2(QP) = {parameters.log2_qp}, depth {parameters.depth}")

# The authority makes the collective keys, under which everybody encrypts. The user makes keys of
# its own, and enrols: what the server sends it only the user can read. The server gets no key that
# decrypts, but one that re-encrypts to this user.
authority = helba.Authority(deployment)
user = authority.make_user()
server = authority.make_server()

for number, shown in enumerate(problem.rounds(2), start=1):
    print(f"round {number}")

    # The server says which batch it serves: the user scales its numbers by what is public of that.
    notice = server.notice()
    print("  server -> user: notice                   ", len(notice) / 1e3, "kB")

    # The user encrypts the features of its arms. The server scores and compares them unseen.
    ask = user.ask(shown.contexts, terms=user.read_notice(notice))
    print("  user -> server: ask, encrypted contexts  ", len(ask) / 1e3, "kB")
    (answer,) = server.receive(ask)
    print("  server -> user: answer, encrypted argmax ", len(answer) / 1e3, "kB")

    # Only the user can read which arm that is. In the second round a bit of the update test has
    # come along; the server flipped it, so that the user does not know what it says.
    recommended = user.read(answer)
    arm = recommended.arm
    assert not recommended.overflow
    if recommended.reply is not None:
        server.receive(recommended.reply)
        print("  user -> server: one flipped bit          ", len(recommended.reply) / 1e3, "kB")

    # The user plays the arm and reports, encrypted, what it earned.
    report = user.report(
        recommended.round, context=shown.contexts[arm], reward=float(shown.rewards[arm])
    )
    print("  user -> server: report, encrypted reward ", len(report) / 1e3, "kB")
    server.receive(report)
    print("  the server holds", server.design)
    print("  the server holds", server.response)

    # After the second round an update is due, for which the server asks whoever is online to
    # refresh ciphertexts. Through the masks the helper sees noise.
    while tasks := server.tasks(user.id):
        share = user.help(tasks[0])
        print("  server -> user: task                     ", len(tasks[0]) / 1e3, "kB")
        print("  user -> server: share                    ", len(share) / 1e3, "kB")
        server.receive(share)

    # An empty model knows only the lengths of the contexts: the longest is the most uncertain.
    if number == 1:
        assert arm == int(np.argmax(np.linalg.norm(shown.contexts, axis=1)))

print(server.status())
assert server.status().samples == 2
assert server.status().updates == 1
