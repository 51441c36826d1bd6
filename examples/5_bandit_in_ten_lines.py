"""5. The encrypted bandit in ten lines: a policy like any other, on shares.

Run: .venv/bin/python examples/5_bandit_in_ten_lines.py
"""

import helba

ROUNDS = 20
problem = helba.make_problem("toy", seed=0)
bandit = helba.EncryptedBandit(helba.settings_for(problem, horizon=130))
regret = 0.0
for number, shown in enumerate(problem.rounds(ROUNDS), start=1):
    arm = bandit.select(shown.contexts)
    bandit.update(shown.contexts[arm], shown.rewards[arm])
    regret += shown.means.max() - shown.means[arm]
    print(f"round {number}: arm {arm}, regret {regret:.2f}, {bandit.updates} updates of the model")

# The server counted reports and updates, and holds nothing but ciphertexts.
server = bandit.server
print(f"{server.state.samples} reports, {server.state.updates} updates")
held = server.state.learned
for name, ciphertext in (
    ("model", held.model),
    ("V", held.design.only),
    ("V^-1", held.rows.only),
    ("g", held.response.only),
):
    print(f"{name:5} {ciphertext}")
ledger = bandit.ledger
up, down = (count / 1e6 / ROUNDS for count in (ledger.bytes_up, ledger.bytes_down))
print(f"{up:.2f} MB up and {down:.2f} MB down a round, {ledger.total() / ROUNDS:.2g} s of all")
assert server.state.samples == ROUNDS
assert bandit.updates > 0
