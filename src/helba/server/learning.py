"""Update tests and updates: one update at a time, IDLE(v) -> UPDATING(v) -> ADOPT(v + 1).

Reports that come meanwhile count for the next one. A test that comes back when the model has
changed, or an update has begun, says nothing any more.
"""

from __future__ import annotations

from helba.learning.update import Learned, TestTerms, run_test, run_update
from helba.learning.update_certificate import UpdateTerms
from helba.protocol.message import Work
from helba.server.conversation import Conversation, Conversations
from helba.server.state import Adopted, GivenUp, ServerState, Tested, UpdateBegun

MOST_ATTEMPTS = 2  # of an update that the check rejects, before a cold start
REJECTED = (
    "the check rejected the model; if that goes on, S, sigma or r_max are too small for the data"
)


class Learning:
    """Starts tests and updates when they are due; a server that begins again begins them again."""

    def __init__(self, state: ServerState, conversations: Conversations) -> None:
        self._state = state
        self._conversations = conversations
        self._transition = conversations.transition
        self._deployment = conversations.deployment
        self._ring = conversations.ring
        if state.taken is not None:
            self._put_back()

    @property
    def updating(self) -> bool:
        """True while an update is under way."""
        return self._conversations.find("update") is not None

    def start(self, opener: bytes, *, now: float, reports_wait: bool) -> None:
        """Start an update if it is due, or the test that says so; a test sees all that is there."""
        state, plan = self._state, self._deployment.plan
        if state.growth is None or self.updating:
            return
        due = plan.growth_due(state.learned.batch, samples=state.samples)
        due = due or state.untested >= plan.most_untested
        if not due:
            if reports_wait or self._conversations.find("fold") is not None:
                return
            if self._conversations.find("test") is not None or not state.untested:
                return
            if state.unseen > plan.most_tested:
                return
        if not self._conversations.prepare(opener, now=now):
            return
        if due:
            self._start_update(opener, now=now)
        else:
            self._start_test(opener, now=now)

    def _start_test(self, opener: bytes, *, now: float) -> None:
        state = self._state
        assert state.growth is not None
        number = state.learned.batch.number
        terms = TestTerms(batch=number, unseen=state.unseen, untested=state.untested)
        test = self._deployment.test_plan(terms)
        steps = run_test(self._ring, test, learned=state.learned, growth=state.growth.total)
        work = Work(subject="test", terms=terms)
        self._conversations.begin(work, steps=steps, opener=opener, subject=state.samples, now=now)

    def _start_update(self, opener: bytes, *, now: float) -> None:
        state = self._state
        assert state.growth is not None
        terms = UpdateTerms(
            before=state.learned.batch,
            samples=state.samples,
            untested=state.untested,
            cold=state.attempts > MOST_ATTEMPTS,
        )
        update = self._deployment.update_plan(terms)
        steps = run_update(self._ring, update, learned=state.learned, growth=state.growth.total)
        self._transition.commit(UpdateBegun())
        work = Work(subject="update", terms=terms)
        self._conversations.begin(work, steps=steps, opener=opener, subject=None, now=now)

    def end_test(self, ended: Conversation, *, now: float) -> None:
        """Take the bit of a test in; a test of another model, or beside an update, says nothing."""
        if not ended.finished:
            return
        state, terms = self._state, ended.work.terms
        assert isinstance(terms, TestTerms)
        tells = terms.batch == state.learned.batch.number and not self.updating
        cleared = ended.subject if tells and not ended.result else 0
        self._transition.commit(Tested(cleared=cleared))
        if tells and ended.result:
            self._start_update(ended.opener, now=now)

    def end_update(self, ended: Conversation) -> str:
        """Adopt a new model, or put the sum back; return what is wrong with the model, if it is."""
        if isinstance(ended.result, Learned):
            terms = ended.work.terms
            assert isinstance(terms, UpdateTerms)
            self._transition.commit(Adopted(learned=ended.result, terms=terms))
            return ""
        rejected = ended.finished
        self._put_back(rejected=rejected)
        return REJECTED if rejected else ""

    def _put_back(self, *, rejected: bool = False) -> None:
        state = self._state
        assert state.taken is not None
        growth = state.taken.plus(state.growth, ring=self._ring)
        self._transition.commit(GivenUp(growth=growth, rejected=rejected))
