"""The users' side of the service: a client over HTTP, and a generator of load."""

from __future__ import annotations

from helba.service.client.account import Account
from helba.service.client.client import Advice, Client
from helba.service.client.enrolment import enrol
from helba.service.client.outbox import PendingRound
from helba.service.client.transport import Patience, Rejected

__all__ = ["Account", "Advice", "Client", "Patience", "PendingRound", "Rejected", "enrol"]
