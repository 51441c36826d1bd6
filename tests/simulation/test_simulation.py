"""Scenarios in short: `python -m tests.simulation` plays as many as one likes (`make soak`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.parties.world import status_of
from tests.simulation.planted import BUGS
from tests.simulation.play import play, play_seeds, replay
from tests.simulation.scenario import Faults, Operation, Scenario, draw_scenario, read_failures
from tests.simulation.simulation import Simulation

ROOT = Path(__file__).parents[2]
SHORT = 200  # scenarios: ten seconds
SOON = 1500  # scenarios within which a planted bug is found: half a minute


@pytest.mark.parametrize("first", range(0, SHORT, 50))
def test_scenarios_hold_all_invariants(first):
    wrong = {seed: play(draw_scenario(seed))[1] for seed in range(first, first + 50)}
    assert {seed: text for seed, text in wrong.items() if text} == {}


@pytest.mark.parametrize("scenario", read_failures(), ids=lambda scenario: scenario.dump()[:40])
def test_scenario_that_once_failed_holds(scenario):
    assert play(scenario)[1] == ""


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(bug):
    found = (wrong for _, _, wrong in play_seeds(0, workers=1, bug=bug))
    told = (next(found) for _ in range(SOON))
    assert any(wrong.startswith("Broken") for wrong in told)


@pytest.mark.parametrize("seed", [3, 5])
def test_scenario_is_data_and_plays_the_same_way_every_time(seed):
    scenario = draw_scenario(seed)
    assert Scenario.load(scenario.dump()) == scenario
    first, second = Simulation(scenario), Simulation(scenario)
    first.play()
    second.play()
    assert (first.messages, first.now) == (second.messages, second.now)
    assert status_of(first.server) == status_of(second.server)
    assert first.ledger.asked.keys() == second.ledger.asked.keys()


def test_replay_of_a_seed_says_what_is_wrong(capsys):
    played = play_seeds(0, workers=1, bug="rows that stay")
    seed = str(next(seed for seed, _, wrong in played if "folded twice" in wrong))
    assert replay(seed, bug="") == 0
    assert "held" in capsys.readouterr().out
    assert replay(seed, bug="rows that stay") == 1
    assert "Broken: a report is folded twice" in capsys.readouterr().err


def test_command_plays_on_several_processes():
    command = [sys.executable, "-m", "tests.simulation", "--messages", "1500", "--workers", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("held")


CHANCES = st.sampled_from([0.0, 0.05, 0.2])


class Machine(RuleBasedStateMachine):
    """Hypothesis chooses what happens; at the end everything comes to rest and is right.

    What fails is printed as a scenario, to be replayed.
    """

    @initialize(
        seed=st.integers(0, 1 << 32),
        opener=st.sampled_from(["authority", "users"]),
        schedule=st.sampled_from(["public", "trace"]),
        faults=st.builds(
            Faults, lose=CHANCES, repeat=CHANCES, delay=CHANCES, truncate=CHANCES, crash=CHANCES
        ),
    )
    def begin(self, seed, opener, schedule, faults):
        self.operations = []
        self.simulation = Simulation(
            Scenario(seed=seed, opener=opener, schedule=schedule, users=2, faults=faults)
        )

    def do(self, kind, actor, seconds=0.0):
        operation = Operation(kind=kind, actor=actor, seconds=seconds)
        self.operations.append(operation)
        self.play(lambda: self.simulation.do(operation))

    def play(self, part):
        """Play a part; a failure is printed as a scenario."""
        try:
            part()
        except Exception:
            told = vars(self.simulation.scenario) | {"operations": tuple(self.operations)}
            print(Scenario(**told).dump())
            raise

    @rule(user=st.integers(0, 1))
    def ask(self, user):
        self.do("ask", user)

    @rule(user=st.integers(0, 1))
    def report(self, user):
        self.do("report", user)

    @rule(user=st.integers(0, 1), what=st.sampled_from(["wild ask", "wild report"]))
    def go_wild(self, user, what):
        self.do(what, user)

    @rule(seconds=st.sampled_from([0.01, 0.3, 4.0]))
    def wait(self, seconds):
        self.do("wait", 0, seconds)

    @rule(party=st.sampled_from(["server", "opener", "user"]), seconds=st.sampled_from([0.01, 6.0]))
    def crash(self, party, seconds):
        self.do("crash", party, seconds)

    @rule()
    def lose_workers(self):
        self.do("worker", 0)

    @rule(link=st.sampled_from(["opener", 0]), seconds=st.sampled_from([0.1, 8.0]))
    def cut(self, link, seconds):
        self.do("cut", link, seconds)

    def teardown(self):
        if not hasattr(self, "simulation"):
            return
        self.play(self.simulation.finish)


class TestMachine(Machine.TestCase):
    settings = settings(
        max_examples=40,
        stateful_step_count=12,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
