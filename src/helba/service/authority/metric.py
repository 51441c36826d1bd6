"""What is counted of an authority, in a registry of its own; no name or id is a label."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from helba.service.authority.delivery import Outcome

STATES = ("in step", "behind", "away", "refused")


class AuthorityMetrics:
    """Counts requests, enrolments and deliveries."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "helba_authority_requests", "requests", ["route", "status"], registry=registry
        )
        self._enrolments = Counter(
            "helba_authority_enrolments", "enrolments that were answered", registry=registry
        )
        self._passes = Counter(
            "helba_authority_deliveries", "looks at the server", ["state"], registry=registry
        )
        self._told = Counter(
            "helba_authority_told", "changes the server took", ["what"], registry=registry
        )
        self._held = Gauge("helba_authority_server_users", "users at the server", registry=registry)
        self._in_step = Gauge(
            "helba_authority_in_step", "1 while the server has all it should", registry=registry
        )
        for state in STATES:
            self._passes.labels(state)
        for what in ("rotation", "enrolment", "revocation"):
            self._told.labels(what)

    def observe_request(self, route: str, status: int, seconds: float) -> None:  # noqa: ARG002
        """Count a request."""
        self._requests.labels(route, status).inc()

    def observe_enrolment(self) -> None:
        """Count an enrolment."""
        self._enrolments.inc()

    def observe_delivery(self, state: str, outcome: Outcome | None) -> None:
        """Count a delivery."""
        self._passes.labels(state).inc()
        self._in_step.set(state == "in step")
        if outcome is not None:
            self._held.set(len(outcome.held))
            self._told.labels("rotation").inc(outcome.rotated)
            self._told.labels("enrolment").inc(len(outcome.enrolled))
            self._told.labels("revocation").inc(len(outcome.revoked))

    def render(self) -> bytes:
        """Return all of it as text for Prometheus."""
        return generate_latest(self._registry)
