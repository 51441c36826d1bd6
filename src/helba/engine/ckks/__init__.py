"""CKKS by OpenFHE. This package is the only one that imports openfhe."""

from helba.engine.ckks.scheme import CkksScheme

__all__ = ["CkksScheme"]
