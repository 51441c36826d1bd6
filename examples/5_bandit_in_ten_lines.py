"""5. The encrypted bandit in ten lines: a policy like any other, on ciphertexts.

Run: .venv/bin/python examples/5_bandit_in_ten_lines.py
"""

import helba

ROUNDS = 3
problem = helba.make_problem("toy", seed=0)
bandit = helba.EncryptedBandit(helba.settings_for(problem, horizon=130))
regret = 0.0
for number, shown in enumerate(problem.rounds(ROUNDS), start=1):
    arm = bandit.select(shown.contexts)
    bandit.update(shown.contexts[arm], shown.rewards[arm])
    regret += shown.means.max() - shown.means[arm]
    print(f"round {number}: arm {arm}, regret {regret:.2f}, {bandit.updates} updates of the model")

# The server counted rounds and updates, and holds nothing but ciphertexts.
server = bandit.server
print(server.status())
for name, held in (("V", server.design), ("V^-1", server.model.inverse), ("g", server.response)):
    print(f"{name:5} {held}")
up, down = (count / 1e6 / ROUNDS for count in (bandit.bytes_up, bandit.bytes_down))
print(f"{up:.1f} MB up and {down:.1f} MB down a round")
assert server.status().round == ROUNDS
assert bandit.updates > 0
assert bandit.overflows == 0
