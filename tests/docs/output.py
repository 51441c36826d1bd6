"""Whether a command printed what its page shows."""

from __future__ import annotations

import re

FRAMES = re.compile(r"[│┃┌┐└┘┏┓┗┛├┤┡┩╇┳┻┬┴┼─━╋]+")
ID = re.compile(r"\b[0-9a-f]{32}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
TOLERANCE = 0.05

Token = tuple[str, tuple[float, ...]]


def agrees(shown: str, *, printed: str, numbers_vary: bool = False) -> bool:
    """Words must be the same and in order; `...` stands for any of them.

    Frames of tables do not count, ids and times differ from run to run, and numbers may be off by
    5%, or by anything if they vary.
    """
    pieces = [_tokens(piece) for piece in re.split(r"(?<!\S)\.\.\.(?!\S)", shown)]
    rest = _tokens(printed)
    open_start = False
    for piece in pieces:
        place = _find(piece, rest, numbers_vary=numbers_vary)
        if place is None or (place > 0 and not open_start):
            return False
        rest = rest[place + len(piece) :]
        open_start = True
    return not rest or not pieces[-1]


def _tokens(text: str) -> list[Token]:
    text = TIME.sub("TIME", ID.sub("ID", FRAMES.sub(" ", text)))
    return [
        (NUMBER.sub("#", word), tuple(map(float, NUMBER.findall(word)))) for word in text.split()
    ]


def _find(piece: list[Token], tokens: list[Token], *, numbers_vary: bool) -> int | None:
    for start in range(len(tokens) - len(piece) + 1):
        pairs = zip(piece, tokens[start : start + len(piece)], strict=True)
        if all(_same(one, two, numbers_vary=numbers_vary) for one, two in pairs):
            return start
    return None


def _same(one: Token, two: Token, *, numbers_vary: bool) -> bool:
    if one[0] != two[0]:
        return False
    pairs = zip(one[1], two[1], strict=True)
    return numbers_vary or all(abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) for a, b in pairs)
