"""Plans that tests share: a plan depends on its request alone, and to find it takes longest."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from helba.reference.planning.planner import make_plan
from helba.reference.protocol import bandit

make_plan_once = functools.cache(make_plan)


@contextmanager
def plans_made_once() -> Iterator[None]:
    """Deployments of the reference that are made in this process take the plan of their request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bandit, "make_plan", make_plan_once)
        yield
