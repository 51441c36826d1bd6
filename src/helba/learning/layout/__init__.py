"""Layouts: which coefficients of polynomials modulo X^N + 1 hold which numbers.

A product of two polynomials is a negacyclic convolution: coefficient t of the product sums
a_p b_r over p + r = t, minus the same over p + r = t + N. A layout puts numbers where one product
computes many sums at once and lets nothing else reach the coefficients that are read.

    InnerProducts   scores of all arms of several users      one model times many features
    MatrixProduct   (m x n)(n x q), in blocks if need be     the steps of an update
    its `gram`      sums of x x^T, r x, r^2 of many reports  reports times reports
    OuterProduct    the same of one report                   a report times its automorphism
    `mirrored`      inner products, Tr(A S)                  the update test, the model check

Layouts are pure index arithmetic, without ciphertexts. An `Arrangement` is where one array
stands; shares go from one arrangement to another by moves.
"""

from helba.learning.layout.arrangement import Arrangement, symmetrising_moves
from helba.learning.layout.inner import InnerProducts
from helba.learning.layout.matrix import MatrixProduct, OuterProduct

__all__ = [
    "Arrangement",
    "InnerProducts",
    "MatrixProduct",
    "OuterProduct",
    "symmetrising_moves",
]
