import pytest

from helba.errors import InvalidInput
from helba.lab.play.single import SingleRequest, run_single
from helba.lab.reproduction.plaintext import clear_unit, play_repetitions
from helba.lab.reproduction.play import command_of, play_single

REQUEST = {"problem": "toy", "horizon": 8, "engine": "simulate", "seed": 3}


@pytest.fixture(scope="module")
def whole():
    return play_single(**REQUEST)


def test_single_play_is_the_run_of_the_command(whole):
    run = run_single(SingleRequest(**REQUEST, profile="ciphertext")).as_json()
    same = ("regret", "updates", "agreement", "parameters", "bytes_up", "bytes_down", "profile")
    assert {name: whole[name] for name in same} == {name: run[name] for name in same}


def test_single_play_has_a_row_for_every_round_with_totals_so_far(whole):
    rows = whole["rows"]
    assert [row["round"] for row in rows] == list(range(1, 9))
    for name in ("regret", "updates", "seconds", "bytes_up", "bytes_down"):
        values = [row[name] for row in rows]
        assert values == sorted(values)
        assert values[-1] == whole[name]


def test_single_play_that_stops_early_is_the_start_of_the_whole(whole):
    part = play_single(**REQUEST, rounds=3)
    assert part["rounds"] == 3
    assert part["horizon"] == 8
    assert part["parameters"] == whole["parameters"]
    assert [row["regret"] for row in part["rows"]] == [row["regret"] for row in whole["rows"]][:3]
    assert whole["update_bound"] is not None
    assert part["update_bound"] is None, "it is a promise about the whole horizon"


def test_single_play_says_that_a_simulated_run_was_not_encrypted(whole):
    assert whole["nothing_was_encrypted"] is True


@pytest.mark.ckks
def test_single_play_on_ckks_was_encrypted():
    played = play_single(**(REQUEST | {"engine": "ckks"}), rounds=1)
    assert played["nothing_was_encrypted"] is False
    assert played["bytes_up"] > 1_000_000


def test_single_play_refuses_an_option_that_it_would_ignore():
    with pytest.raises(InvalidInput, match="separate"):
        play_single(**REQUEST, separate=True)


def test_command_repeats_the_request_and_says_where_it_stops():
    options = "--profile ciphertext --horizon 8 --engine simulate --seed 3"
    assert command_of(REQUEST) == f"helba run toy {options}"
    assert command_of({**REQUEST, "rounds": 3}).endswith("# its first 3 rounds")
    assert "--horizon" not in command_of({"problem": "toy", "horizon": 130, "rounds": 130})


def test_repetitions_play_one_draw_each_and_keep_the_first():
    many = play_repetitions(problem="toy", horizon=10, algorithm="oful", seed=5, repetitions=3)
    alone = play_repetitions(problem="toy", horizon=10, algorithm="oful", seed=5, repetitions=1)
    assert len(set(many["regrets"])) == 3
    assert many["regret"] == pytest.approx(sum(many["regrets"]) / 3)
    assert many["rows"][-1]["regret"] == pytest.approx(many["regret"])
    assert many["rows"][-1]["first_regret"] == alone["regret"] == many["regrets"][0]
    assert alone["regret_se"] is None


def test_unit_in_the_clear_has_a_command_only_if_one_says_it_all():
    common = {"problem": "toy", "horizon": 10, "algorithm": "ldp", "seed": 0, "repetitions": 2}
    assert clear_unit("a", **common).command is not None
    assert clear_unit("a", **common, epsilon=2.0).command is None


def test_privacy_costs_regret():
    def regrets(epsilon):
        return play_repetitions(
            problem="toy",
            horizon=500,
            algorithm="ldp",
            seed=0,
            repetitions=6,
            epsilon=epsilon,
            radius_scale=0.1,
        )["regrets"]

    private, weak, nearly_none = regrets(1.0), regrets(1e3), regrets(1e5)
    assert sum(private) > 1.5 * sum(weak)
    assert sum(weak) > 1.5 * sum(nearly_none)
    assert all(more > less for more, less in zip(private, nearly_none, strict=True))
