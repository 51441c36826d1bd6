"""7. An encrypted inner product, opened to two shares, compared in a garbled circuit.

Numbers stand in the coefficients of polynomials, so one product of two ciphertexts computes the
scores of all arms. Nobody decrypts them: the opener gets each score plus a uniform mask, the server
has the mask, and a garbled circuit finds the largest. Only the user learns which it is.

Run: .venv/bin/python examples/7_compare_without_reading.py
"""

import numpy as np

from helba.garbling import EvaluatorSession, GarblerSession, build_argmax, combine, read_indices
from helba.learning.layout import InnerProducts
from helba.ring import Bound, Ring, choose_parameters
from helba.ring.grid import choose_grid
from helba.ring.secret import Opener, make_keys

ARMS, FEATURES, BITS = 3, 4, 40

# -- who has which key: server and user public ones, the opener the secret one
parameters = choose_parameters(security=128)
keys = make_keys(parameters)
server = Ring(keys.public, evaluation_key=keys.evaluation)
user = Ring(keys.public)
opener = Opener(keys.secret, public_key=keys.public)
print(f"N = {parameters.ring_dim}, log2(QP) = {parameters.log2_qp}, {parameters.security} bits")

# -- integers: features of three arms, and a model that the server holds encrypted
features = np.array([[120, -45, 7, 300], [80, 200, -90, 10], [-5, 60, 250, 310]])
model = np.array([31, 70, -22, 13])

# The score is an integer too. The grid says by which numbers features and model are multiplied, so
# that the errors of encryption stay in bits which the circuit rounds away.
layout = InnerProducts(ring_dim=parameters.ring_dim, features=FEATURES, arms=ARMS)
grid = choose_grid(
    parameters=parameters,
    features=Bound.of(peak=512.0, count=ARMS * FEATURES),
    model=Bound.of(peak=128.0, count=FEATURES),
    score_peak=512.0 * 128.0 * FEATURES,
    bits=BITS,
)
print(f"features x {grid.feature_multiple}, model x {grid.model_multiple}")

# -- the user encrypts its features, the server has the model
ask = user.encrypt(
    features.reshape(-1) * grid.feature_multiple,
    places=layout.feature_places.places,
    scale=grid.feature_multiple,
    peak=512.0 * grid.feature_multiple,
    primes=2,
)
held = server.encrypt(
    model * grid.model_multiple,
    places=layout.model_places.places,
    scale=grid.model_multiple,
    peak=128.0 * grid.model_multiple,
    primes=2,
)
print("ask   ", ask)
print("model ", held)

# -- one product: all scores, each in a coefficient of its own
scores = server.product(ask, held, terms=FEATURES)
print("scores", scores)

# -- open behind a mask: the opener's share is uniform, whatever the scores are
places = layout.score_places.places.reshape(-1)
opening, mask = server.open(scores, places=places)
share = opener.receive(opening, places=places).modulo(bits=BITS)
masks = mask.take_modulo(bits=BITS)  # the server's share; a mask serves once
print("opener sees", share)

# -- the server garbles, the opener evaluates; neither learns anything from it
garbler, evaluator = GarblerSession(), EvaluatorSession()
garbler.complete(evaluator.answer(garbler.offer()))  # once a session
circuit = build_argmax(ARMS, bits=BITS, grid_bits=grid.low_bits)
print(circuit)
transfer = evaluator.begin(circuit, shares=share.reshape(1, ARMS))
garbled = garbler.garble(circuit, shares=masks.reshape(1, ARMS), transfer=transfer)
evaluated = evaluator.evaluate(garbled.tables)

# -- the user has a part from each of them, and together they are the arm
(arm,) = read_indices(combine(garbled.decoding, evaluated.colours), arms=ARMS)
exact = features @ model
print(f"the user's arm: {arm}; the scores, which nobody saw: {exact}")
assert arm == exact.argmax()
assert not any(int(one) == int(score) for one, score in zip(share, exact, strict=True))
