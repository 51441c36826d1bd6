"""3. An encrypted argmax: the server picks an arm and does not learn which.

Run: .venv/bin/python examples/3_encrypted_argmax.py
"""

import time

import numpy as np

from helba.reference.circuits.comparison.argmax import comparison_vector
from helba.reference.circuits.scores.scores import score_differences
from helba.reference.engine import get_scheme
from helba.reference.numerics.argmax import argmax_levels, argmax_tolerance, disclosure
from helba.reference.numerics.sign import cheapest_composition
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.layout.score_packing import pack_contexts, pack_model, read_answer
from helba.reference.planning.parameters import Parameters

DIM, ARMS, METHOD = 3, 4, "product"

# A polynomial that is within 0.02 of the sign wherever |x| >= 1/64.
sign = cheapest_composition(resolution=2**-6, error=0.02, depth=9)
print(f"sign: degrees {sign.degrees}, {sign.certificate}")

# One slot for each feature and each pair of arms; scores take one level, the argmax the rest.
layout = ScoreLayout(dim=DIM, arms=ARMS)
levels = 1 + argmax_levels(sign=sign, arms=ARMS, method=METHOD)
parameters = Parameters(ring_dim=1 << 15, depth=levels, scale_bits=40, digits=3, security=128)
print(f"{layout.slots} slots, {levels} levels, log2(QP) = {parameters.log2_qp}")

scheme = get_scheme("ckks")
keys = scheme.generate_keys(parameters, rotations=layout.rotations_for(METHOD))
user = scheme.engine(keys.public)
server = scheme.engine(keys.public, evaluation_key=keys.evaluation)

# The model that the server holds, encrypted: an estimate w and an inverse A.
rng = np.random.default_rng(0)
w = rng.normal(size=DIM)
A = np.linalg.inv(np.eye(DIM) + np.cov(rng.normal(size=(DIM, 9))))
model = user.encrypt(pack_model(layout, inverse=A, estimate=w))

# The user's arms. Features and their pairwise differences are made in the clear, by the user.
contexts = rng.uniform(-1, 1, (ARMS, DIM))
gamma, scale = 1.0, 12.0
scores = contexts @ w + gamma / 2 * np.einsum("ki,ij,kj->k", contexts, A, contexts)
asked = user.encrypt(pack_contexts(layout, contexts=contexts, gamma=gamma, scale=scale))
print("asked          ", asked)

start = time.perf_counter()
differences = score_differences(server, asked, model=model, layout=layout)
print("differences    ", differences)
answer = comparison_vector(server, differences, layout=layout, sign=sign, method=METHOD)
answer = server.lower(answer, parameters.depth)  # the smallest ciphertext that holds it
print("answer         ", answer, f"after {time.perf_counter() - start:.2f} s")

# Only the user reads it: close to 1 for the winner, close to 0 for the others.
values = user.decrypt(answer, secret_key=keys.secret)
b = read_answer(layout, values=values, method=METHOD).comparison
print("scores         ", scores.round(3))
print("b              ", np.array2string(b, precision=3, suppress_small=True))
print(f"arm {int(np.argmax(b))} wins")
assert int(np.argmax(b)) == int(np.argmax(scores))

# What is certain: the arm is within this of the best, and of gaps wider than the resolution the
# user learns nothing but who won.
tolerance = argmax_tolerance(sign=sign, arms=ARMS, scale=scale, method=METHOD, noise=1e-6)
shown = disclosure(sign=sign, arms=ARMS, scale=scale, method=METHOD)
print(f"tolerance {tolerance:.2g}, gaps below {shown.revealed_below:.2g} may be learned")
assert scores.max() - scores[int(np.argmax(b))] <= tolerance
