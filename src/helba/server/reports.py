"""Reports: taken in once each, stored, and folded into the sum in groups.

In the setting `users` a report is a ciphertext and is summed at once. In `authority` it is a row of
shares; rows are checked and summed together. A group that is not in range, or that the opener
refuses, is tried again in smaller ones: three checks find one bad report, and the opener allows no
more. What fails alone is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from helba.learning.round import fold_report, run_fold
from helba.protocol.message import Receipt, Refusal, Report, Shared, Work
from helba.server.conversation import Conversation, Conversations, root_up, split_group
from helba.server.state import Dropped, Folded, Growth, Row, ServerState, Stored


class Reports:
    """Takes reports in, and starts one fold at a time; which rows go together is not stored."""

    def __init__(self, state: ServerState, conversations: Conversations) -> None:
        self._state = state
        self._conversations = conversations
        self._transition = conversations.transition
        self._deployment = conversations.deployment
        self._ring = conversations.ring
        self._fresh: deque[bytes] = deque()
        self._again: deque[Sequence[bytes]] = deque()  # groups that were judged, and must be again
        rows = state.rows.values()
        self._fresh += [row.name for row in rows if not row.judged]
        for judged in (1, 2):
            self._again += self._regroup([row.name for row in rows if min(row.judged, 2) == judged])

    def __len__(self) -> int:
        return len(self._fresh) + sum(map(len, self._again))

    def take(self, report: Report, *, sender: bytes) -> None:
        """Store a report and acknowledge it, or refuse it; the first of a name counts."""
        if report.name not in self._state.names:
            refusal = self._refuse(report)
            if refusal is not None:
                self._transition.send(refusal, to=sender)
                return
            self._store(report)
        self._transition.send(Receipt(name=report.name), to=sender)

    def _refuse(self, report: Report) -> Refusal | None:
        """Return what is wrong with a report, or None."""
        deployment, state, body = self._deployment, self._state, report.report
        horizon, dim = deployment.settings.horizon, deployment.settings.dim
        reason, later = "", False
        if state.samples + len(state.rows) >= horizon:
            reason = f"the horizon of {horizon} reports is reached: extend it to go on"
        elif deployment.plan.opener == "authority":
            if not isinstance(body, Shared) or len(body.shares) != dim + 1:
                reason = f"expected {dim + 1} shares and a sealed seed"
        elif body != deployment.describe_report(self._ring.public_key):
            reason = "the ciphertext is not that of a report of this plan"
        elif state.unseen + 1 > deployment.plan.most_unseen:
            reason, later = "too many reports wait for an update: try again later", True
        return Refusal(name=report.name, reason=reason, later=later) if reason else None

    def _store(self, report: Report) -> None:
        body = report.report
        if isinstance(body, Shared):
            row = Row(name=report.name, shares=body.shares, box=body.box)
            self._transition.commit(Stored(row=row))
            self._fresh.append(row.name)
        else:
            total = fold_report(self._ring, self._deployment.plan, body)
            growth = Growth(total=total, count=1).plus(self._state.growth, ring=self._ring)
            self._transition.commit(Folded(names=[report.name], growth=growth))

    def start(self, opener: bytes, *, now: float) -> None:
        """Start to fold what waits, if nothing is being folded and there is room in the sum."""
        plan = self._deployment.plan
        room = plan.most_unseen - self._state.unseen
        if not len(self) or room <= 0 or self._conversations.find("fold") is not None:
            return
        if not self._conversations.prepare(opener, now=now):
            return
        if self._again:
            names = self._again.popleft()
        else:
            count = min(len(self._fresh), plan.group, room)
            names = [self._fresh.popleft() for _ in range(count)]
        rows = [self._state.rows[name] for name in names]
        steps = run_fold(
            self._ring,
            plan,
            reports=np.stack([row.shares for row in rows]),
            boxes=tuple(row.box for row in rows),
        )
        work = Work(subject="fold", count=len(rows))
        self._conversations.begin(work, steps=steps, opener=opener, subject=names, now=now)

    def end(self, ended: Conversation) -> None:
        """Add what was folded, split what was not in range, put back what was given up."""
        names: Sequence[bytes] = ended.subject
        if not (ended.finished or ended.refused):
            self._again.extendleft(reversed(self._regroup(names)))
        elif ended.result is not None:
            growth = Growth(total=ended.result, count=len(names))
            growth = growth.plus(self._state.growth, ring=self._ring)
            self._transition.commit(Folded(names=names, growth=growth))
        elif len(names) == 1:
            self._transition.commit(Dropped(name=names[0]))
        else:
            self._again += split_group(names, most=self._deployment.plan.group)

    def _regroup(self, names: Sequence[bytes]) -> list[Sequence[bytes]]:
        """Groups in which the last check that the opener allows is one of a single report."""
        judged = max((self._state.rows[name].judged for name in names), default=0)
        few = root_up(self._deployment.plan.group)
        size = max(1, len(names)) if not judged else few if judged == 1 else 1
        return [names[i : i + size] for i in range(0, len(names), size)]
