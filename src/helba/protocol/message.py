"""Messages of the bandit on shares. Parties exchange these and nothing else.

    user      -> authority  Enrol
    authority -> server     Admission
    authority -> user       Refusal
    user      -> server     Ask, Report               a ciphertext, or shares and a sealed seed
    server    -> user       Answer, Receipt, Refusal
    server    -> opener     Offer, PadTask, ReopenTask, CompareTask, Tables
    opener    -> server     Acceptance, Pads, Reopened, Transfer, Verdict, Colours, Abort

A task is one piece of the server's work that needs the opener; its name is drawn at random, and a
new attempt has a new name. What is opened, moved and compared in a task follows from the plan and
from `Work`, the task's public numbers. No message holds a mask, a label of the garbler or an
offset. As bytes a message has its fields in their order, and a kind by its place in `Message`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from helba.garbling import ReturnedMessage, SetupAnswer, SetupOffer, TablesMessage, TransferMessage
from helba.garbling.circuits.circuit import Bits
from helba.learning.update import TestTerms
from helba.learning.update_certificate import UpdateTerms
from helba.ring import Ciphertext, Opening, PublicKey, Recipient
from helba.ring.sharing.integer import Integers

ID_BYTES = 16
SIGN_SEED_BYTES = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Enrol:
    """A user asks to take part; in the setting `users` with a public key of its own.

    Who asks is known by the channel it comes through, for all that users send.
    """

    public_key: PublicKey | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Admission:
    """This user takes part; in the setting `users` with the keys by which the server reaches it."""

    user: bytes
    recipient: Recipient | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Shared:
    """A user's numbers as shares: what the server keeps, and the seed, sealed to the opener."""

    shares: Integers = field(repr=False)
    box: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ask:
    """A user asks for a recommendation in the round `name`: the features of all its arms."""

    name: bytes
    features: tuple[Ciphertext, ...] | Shared


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """A user reports a context and its reward; `name` has nothing to do with the ask's."""

    name: bytes
    report: Ciphertext | Shared


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """The server's half of a recommendation, and the opener's half where it travels sealed.

    `task` and `batch` say which circuit and which model it came from.
    """

    name: bytes
    task: bytes
    batch: int
    decoding: Bits = field(repr=False)
    sealed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The report of that name is stored and will count once; or the user of that name may ask."""

    name: bytes


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An ask, a report or a user of that name is not taken, and why; `later` it may be."""

    name: bytes
    reason: str
    later: bool = False


@dataclass(frozen=True, kw_only=True)
class Work:
    """The public numbers of a task: what it is about, and the counts that its plan needs.

    `subject` is ask, fold, test or update; `count` is the number of asks or reports of the first
    two; `terms` belong to the other two.
    """

    subject: str
    count: int = 1
    terms: TestTerms | UpdateTerms | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Offer:
    """The first message of a garbling session; see `helba.garbling.session`."""

    offer: SetupOffer


@dataclass(frozen=True, kw_only=True, eq=False)
class Acceptance:
    """The second one."""

    answer: SetupAnswer


@dataclass(frozen=True, kw_only=True, eq=False)
class PadTask:
    """Encrypt the pads that these seeds make, side by side, at the places of the plan."""

    task: bytes
    work: Work
    boxes: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pads:
    """The pads, encrypted; `signs` is the seed of the sums that are checked."""

    task: bytes
    pads: tuple[Ciphertext, ...]
    signs: bytes = b""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReopenTask:
    """Open, and encrypt again as the plan says for this step."""

    task: bytes
    work: Work
    step: str
    openings: tuple[Opening, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reopened:
    """The opener's shares of this step, encrypted again."""

    task: bytes
    step: str
    replies: tuple[Ciphertext, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class CompareTask:
    """Open, and evaluate the plan's circuit for this work on the shares."""

    task: bytes
    work: Work
    openings: tuple[Opening, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfer:
    """The evaluator's transfer for a comparison."""

    task: bytes
    work: Work
    transfer: TransferMessage


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """The garbled circuit of a comparison.

    `told` are, for asks that came as shares, decoding bits of one output a lane for the opener:
    whether the ask is in range. It answers several asks of one product only if all of them are.
    """

    task: bytes
    work: Work
    told: Bits = field(repr=False)
    tables: TablesMessage


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
    """Labels of the bits that a comparison returns to the server."""

    task: bytes
    work: Work
    returned: ReturnedMessage


@dataclass(frozen=True, kw_only=True, eq=False)
class Colours:
    """The opener's half of each user's answer, sealed to that user."""

    task: bytes
    halves: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Abort:
    """The opener does not go on with a task; nothing was returned.

    `refused` says that the same again will not do either: something in the task is not admissible.
    `unknown` says that the opener has no such garbling session: the server must offer a new one.
    """

    task: bytes
    refused: bool = False
    unknown: bool = False
    reason: str


ForUser = Answer | Receipt | Refusal
Reply = Pads | Reopened | Transfer | Verdict | Colours | Abort  # of an opener, in a task
Message = (
    Ask
    | Report
    | ForUser
    | Offer
    | Acceptance
    | PadTask
    | Pads
    | ReopenTask
    | Reopened
    | CompareTask
    | Transfer
    | Tables
    | Verdict
    | Colours
    | Abort
    | Enrol
    | Admission
)
