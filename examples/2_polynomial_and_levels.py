"""2. A polynomial and its levels: what depth costs, and how the order of products saves it.

Run: .venv/bin/python examples/2_polynomial_and_levels.py
"""

import numpy as np
from numpy.polynomial import chebyshev

from helba.reference.circuits.comparison.polynomial import evaluate_polynomial
from helba.reference.engine import get_scheme
from helba.reference.numerics.evaluation import evaluation_order
from helba.reference.planning.parameters import Parameters

parameters = Parameters(ring_dim=1 << 14, depth=6, scale_bits=35, digits=4, security=128)
scheme = get_scheme("ckks")
keys = scheme.generate_keys(parameters)
engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)

# p(x) = x - x^3/3 + x^5/5 - x^7/7 approximates the arctangent, x in [-1, 1].
power = [1.0, -1 / 3, 1 / 5, -1 / 7]
x = np.linspace(-0.7, 0.7, 8)
expected = x - x**3 / 3 + x**5 / 5 - x**7 / 7

# By Horner's rule in x^2: one level for x^2, one for the first coefficient, one for every product.
held = engine.encrypt(x)
print("x                    ", held)
square = engine.multiply(held, held)
print("x^2                  ", square)
total = engine.multiply_scalar(square, power[3])
for coefficient in reversed(power[1:3]):
    total = engine.multiply(engine.add_plain(total, coefficient), square)
    print(f"... + {coefficient:+.2f}) x^2    ", total)
horner = engine.multiply(engine.add_plain(total, power[0]), held)
print("Horner, p(x)         ", horner)
assert horner.level == 5

# The least depth of degree 7 is 3: in Chebyshev polynomials, p = q T_4 + r, and both parts use T_2.
order = evaluation_order(power, basis="power")
print(f"least depth           {order.levels} levels, {order.products} products")
with engine.count() as tally:
    shallow = evaluate_polynomial(engine, held, order=order)
print("p(x)                 ", shallow, tally)
assert (shallow.level, tally.products) == (order.levels, order.products) == (3, 5)

for name, vector in (("Horner", horner), ("least depth", shallow)):
    error = np.abs(engine.decrypt(vector, secret_key=keys.secret) - expected).max()
    print(f"{name:12} error {error:.1e}")
    assert error < 1e-5

# The same numbers in the Chebyshev basis, which is what the order works in.
series = np.zeros(8)
series[1::2] = power
print("Chebyshev coefficients", np.round(chebyshev.poly2cheb(series)[1::2], 4))

# The simulator runs the same circuit in the clear and knows the levels and a bound of the error.
simulated = get_scheme("simulate")
tokens = simulated.generate_keys(parameters)
model = simulated.engine(tokens.public, evaluation_key=tokens.evaluation)
predicted = evaluate_polynomial(model, model.encrypt(x), order=order)
print("simulated            ", predicted, f"error at most {model.noise_bound(predicted):.1e}")
assert predicted.level == shallow.level
