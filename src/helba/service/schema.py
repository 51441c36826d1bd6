"""What the server's JSON looks like.

The models describe; nothing is converted or checked with them when a response leaves.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

ID = "b0a1c2d3e4f5061728394a5b6c7d8e9f"


class Problem(BaseModel):
    """What is wrong (RFC 9457)."""

    title: str
    status: int
    detail: str


class Health(BaseModel):
    """Whether the server serves, and the state of each tenant."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"status": "serving", "tenants": {"main": "serving"}}}
    )
    status: str = Field(pattern="^(serving|starting|degraded)$")
    tenants: dict[str, str]


class Party(BaseModel):
    """One party: what it learns, and what it does not while all follow the protocol."""

    who: str
    learns: str
    never: str


class Latency(BaseModel):
    """Milliseconds from a round's question to its answer; null before the first."""

    p50: float | None
    p95: float | None


class TenantReport(BaseModel):
    """One deployment that is served; nothing in it is secret. Counts are null until it serves."""

    name: str
    state: str = Field(pattern="^(starting|serving|failed|stopped)$")
    engine: str
    fingerprint: str
    key: str | None
    keys: str
    refresh: str
    security: int | None
    ring_dim: int
    dim: int
    arms: int
    horizon: int
    round: int | None
    samples: int | None
    updates: int | None
    rejected: int | None
    held: int | None
    enrolled: int | None
    open_rounds: int
    bits: int | None
    bit_budget: int | None
    rotation_due: bool | None
    batch: int
    last_error: str | None
    waiting: int
    learns: list[Party]
    latency_ms: Latency
    rounds_per_second: float | None
    simulated: bool


class Status(BaseModel):
    """The server and its tenants."""

    version: str
    uptime_seconds: float
    tenants: list[TenantReport]


class Point(BaseModel):
    """What happened within one step of a history."""

    at: str
    rounds: int
    rewards: int
    updates: int
    latency_ms: float | None


class History(BaseModel):
    """The last minutes, in steps."""

    minutes: int
    step_seconds: int
    points: list[Point]


class Round(BaseModel):
    """A round without a reward."""

    round: str
    asked_at: str


class Rounds(BaseModel):
    """The rounds of a user that have no reward yet."""

    rounds: list[Round]


class Members(BaseModel):
    """Who is enrolled, with the hashes of tokens, and who was revoked."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"key": ID, "enrolled": {ID: "00" * 32}, "revoked": []}}
    )
    key: str
    enrolled: dict[str, str | None]
    revoked: list[str]


class Ledger(BaseModel):
    """The bits that users told of what they decrypted, under the collective key."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"key": ID, "total": 2, "budget": 1024, "bits": {ID: 2}}}
    )
    key: str
    total: int
    budget: int
    bits: dict[str, int]


MODELS = (Problem, Health, TenantReport, Status, History, Rounds, Members, Ledger)
