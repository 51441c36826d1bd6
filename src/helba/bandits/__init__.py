"""Policies in the clear: the baselines, and the twin of the bandit on shares."""

from __future__ import annotations

from helba.bandits.policy import Decision, HorizonWarning, Policy
from helba.bandits.settings import BONUSES, PROFILES, SCHEDULES, Settings

__all__ = ["BONUSES", "PROFILES", "SCHEDULES", "Decision", "HorizonWarning", "Policy", "Settings"]
