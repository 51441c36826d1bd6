"""The product of Jiang et al. on encrypted matrices with doubled rows: the `paper` profile's."""

from __future__ import annotations

from helba.reference.circuits.algebra.gather import gather
from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.jiang import JiangLayout


def jiang_product(
    engine: Engine,
    *,
    left: EncryptedVector,
    right: EncryptedVector,
    layout: JiangLayout,
    left_factor: float = 1.0,
    right_factor: float = 1.0,
) -> EncryptedVector:
    """Return left_factor right_factor L R, rows doubled again. 2 levels above the deeper operand.

    Operands may repeat over more slots than `layout.slots`, the result does not. Both factors are
    arranged by masked rotations; p hoisted shifts of each are multiplied pair by pair and
    relinearised as one. Source: Jiang et al., ePrint 2018/1041; see `planning.layout.jiang`.
    """
    slots, level = layout.slots, max(left.level, right.level)
    narrow = [engine.lower(engine.fold(matrix, slots), level) for matrix in (left, right)]
    double = ((-layout.side,),)
    diagonals = gather(engine, [(narrow[0], layout.left)], slots=slots, factor=left_factor)[0]
    columns = gather(engine, [(narrow[1], layout.right)], slots=slots, factor=right_factor)[0]
    doubled = add_rotations(engine, diagonals, stages=double)
    pairs = zip(
        engine.rotate_many(doubled, layout.column_shifts),
        engine.rotate_many(columns, layout.row_shifts),
        strict=True,
    )
    total = engine.combine([(engine.multiply(a, b), 1.0) for a, b in pairs])
    return add_rotations(engine, total, stages=double)
