"""1. Encrypt and add: keys, vectors, levels.

Run: .venv/bin/python examples/1_encrypt_and_add.py
"""

import numpy as np

from helba.errors import LevelsExhausted, WrongVector
from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import Parameters

# Parameters are checked when they are made: 128 bits by the table of ePrint 2024/463. A ring of
# dimension 2^13 carries a modulus of at most 214 bits, so this one has room for two products.
parameters = Parameters(
    ring_dim=1 << 13, depth=2, scale_bits=35, first_bits=50, digits=3, security=128
)
print(f"N = {parameters.ring_dim}, log2(QP) = {parameters.log2_qp} of at most 214")

# Three keys for three parties: everybody may have `public`, the server gets `public` and
# `evaluation`, only the owner keeps `secret`.
scheme = get_scheme("ckks")
keys = scheme.generate_keys(parameters, rotations=(1,))
user = scheme.engine(keys.public)
server = scheme.engine(keys.public, evaluation_key=keys.evaluation)

# A vector fills a power of two of slots. Printing one shows its shape, never its content.
x = np.array([1.0, 2.0, 3.0, 4.0])
y = np.array([0.5, 0.25, 0.125, 0.0625])
a, b = user.encrypt(x), user.encrypt(y)
print("encrypted      ", a)

# The server adds without a level, multiplies for one, rotates with a key.
total = server.add(a, b)
print("a + b          ", total)
product = server.multiply(a, b)
print("a * b          ", product)
moved = server.rotate(product, 1)
print("a * b, rotated ", moved)

# Only the owner of the secret key can look.
for name, vector, expected in (
    ("a + b", total, x + y),
    ("a * b", product, x * y),
    ("rotated", moved, np.roll(x * y, -1)),
):
    found = user.decrypt(vector, secret_key=keys.secret)
    error = np.abs(found - expected).max()
    print(f"{name:8}{found.round(4)}   error {error:.1e}")
    assert error < 1e-4

# Levels are used up by products. When they are, the engine says so instead of computing nonsense.
deeper = server.multiply(product, a)
try:
    server.multiply(deeper, a)
except LevelsExhausted as refusal:
    print("a third product:", refusal)
else:
    raise AssertionError("two levels allowed three products")

# Somebody else's key does not fit.
try:
    user.decrypt(total, secret_key=scheme.generate_keys(parameters).secret)
except WrongVector as refusal:
    print("another key:    ", refusal)
else:
    raise AssertionError("a foreign key decrypted")
