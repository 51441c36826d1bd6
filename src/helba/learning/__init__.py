"""Learning on polynomials: where numbers stand, and what products of polynomials make of them."""
