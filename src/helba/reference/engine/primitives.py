"""What a scheme implements: one operation each, on bodies that `Engine` has checked and aligned.

Bodies of one call share their level and degree. A payload is the scheme's own ciphertext; it is
never changed in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.reference.engine.keys import PublicKey, Recipient, ReencryptionKey, SecretKey
from helba.reference.engine.vector import Body

Array = NDArray[np.float64]


class Primitives(ABC):
    """The operations of a scheme; each returns a new payload."""

    @abstractmethod
    def _encrypt(self, clear: Array, level: int) -> Any:
        """Fresh encryption of `clear` at `level`."""

    @abstractmethod
    def _decrypt(self, body: Body, secret_key: SecretKey, slots: int) -> Array:
        """The numbers of a body of degree 1."""

    @abstractmethod
    def _add(self, left: Body, right: Body) -> Any:
        """Sum; one of the two may still have to be relinearised."""

    @abstractmethod
    def _subtract(self, left: Body, right: Body) -> Any:
        """Difference, as for `_add`."""

    @abstractmethod
    def _add_plain(self, body: Body, clear: Array) -> Any:
        """Sum with one number (0-dimensional) or one for each slot."""

    @abstractmethod
    def _multiply(self, left: Body, right: Body) -> Any:
        """Product, of degree 2 and not relinearised."""

    @abstractmethod
    def _multiply_plain(self, body: Body, clear: Array) -> Any:
        """Product with one number for each slot, of degree 2."""

    @abstractmethod
    def _multiply_scalar(self, body: Body, factor: float, level: int) -> Any:
        """Product with a number, of degree 2, at `level` or at the body's own if that is lower."""

    @abstractmethod
    def _relinearise(self, body: Body) -> Any:
        """The same product as a ciphertext of two polynomials."""

    @abstractmethod
    def _rescale(self, body: Body) -> Any:
        """The same value at degree 1, one level down."""

    @abstractmethod
    def _rotate(self, body: Body, key: int) -> Any:
        """Rotation by the step of `key`."""

    @abstractmethod
    def _hoist(self, body: Body) -> Any:
        """The part of the work that rotations of one body share."""

    @abstractmethod
    def _rotate_hoisted(self, body: Body, digits: Any, key: int) -> Any:
        """Rotation that starts from the shared part."""

    @abstractmethod
    def _sum_rotations(self, body: Body, keys: Sequence[int]) -> Any:
        """Sum of at least two rotations."""

    @abstractmethod
    def _repeat(self, body: Body, times: int) -> Any:
        """The same ciphertext, read as `times` copies side by side."""

    @abstractmethod
    def _fold(self, body: Body, slots: int) -> Any:
        """The same ciphertext, of that period, read as one copy."""

    @abstractmethod
    def _reencrypt(self, body: Body, key: ReencryptionKey) -> Any:
        """The same value of degree 1, under the recipient's key."""

    @abstractmethod
    def _flood(self, body: Body, slots: int, amount: float) -> Any:
        """The value of degree 1 plus a fresh encryption of noise, `amount` at most in a slot."""

    @abstractmethod
    def _begin_refresh(self, body: Body, to: Recipient | None) -> tuple[Any, Any]:
        """What the helper gets, masked and re-randomised under its key, and the mask that stays."""

    @abstractmethod
    def _answer_refresh(self, request: Any, secret_key: SecretKey, under: PublicKey) -> Any:
        """The helper's step: what it decrypts, encrypted again under `under`."""

    @abstractmethod
    def _finish_refresh(self, reply: Any, mask: Any) -> Any:
        """The value without its mask, at level 0."""

    @abstractmethod
    def _begin_opening(self, body: Body, slots: int, to: Recipient | None) -> tuple[Any, Any]:
        """As for `_begin_refresh`; the mask is as `_finish_opening` needs it."""

    @abstractmethod
    def _answer_opening(self, request: Any, secret_key: SecretKey, slots: int, flood: float) -> Any:
        """The owner's step: what is masked, in the clear, with noise up to `flood` in a slot."""

    @abstractmethod
    def _finish_opening(self, reply: Any, mask: Any) -> Array:
        """The numbers without their mask; `DamagedData` if they are beyond `most_masked`."""

    @abstractmethod
    def _bootstrap(self, body: Body) -> Body:
        """The value with levels again, at the level where bootstrapping ends."""
