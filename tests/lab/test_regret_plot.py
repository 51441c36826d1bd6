from __future__ import annotations

import itertools

import numpy as np
import pytest

from helba.lab.plots import STYLES, Curve, _spread_out, plot_regret


def curve(slope: float) -> Curve:
    return Curve.from_runs([slope * np.arange(1.0, 1001.0), 1.1 * slope * np.arange(1.0, 1001.0)])


def test_curve_has_the_mean_and_its_standard_error():
    found = Curve.from_runs([np.array([1.0, 2.0]), np.array([3.0, 6.0])])
    assert found.mean.tolist() == [2.0, 4.0]
    assert found.error.tolist() == pytest.approx([1.0, 2.0])


def test_plot_is_written_in_both_formats_and_repeats_itself(tmp_path):
    curves = {name: curve(0.1 * index + 0.1) for index, name in enumerate(STYLES)}
    for folder in ("one", "two"):
        assert plot_regret(curves, title="a < b", folder=tmp_path / folder).stat().st_size > 10_000
    one, two = ((tmp_path / folder / "regret.svg").read_bytes() for folder in ("one", "two"))
    assert one == two
    assert len(one) < 1_000_000


def test_plot_shows_a_single_run_of_one_round(tmp_path):
    only = Curve.from_runs([np.array([0.0])])
    assert plot_regret({"new": only}, title="one", folder=tmp_path).exists()


def test_plot_styles_are_all_different():
    assert len({colour for colour, _ in STYLES.values()}) == len(STYLES)


@pytest.mark.parametrize("places", [[0.0, 0.0, 0.0], [1.0, 5.0, 9.9], [9.8, 9.9, 10.0], [2.0]])
def test_plot_labels_keep_their_distance_and_stay_inside(places):
    moved = _spread_out(places, gap=1.0, top=10.0)
    assert all(two - one >= 1.0 - 1e-9 for one, two in itertools.pairwise(moved))
    assert min(moved) >= 0.5
    assert max(moved) <= 9.5
