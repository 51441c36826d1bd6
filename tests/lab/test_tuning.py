from __future__ import annotations

from helba.lab.comparison.compare import Request, compare
from helba.lab.comparison.tuning import RADIUS_SCALES, best_scale, tune_radius, tuning_jobs
from helba.lab.pool import Workers
from helba.lab.progress import Progress


def test_tuning_takes_the_scale_of_least_mean_regret():
    assert best_scale({1.0: [3.0, 1.0], 0.5: [1.0, 1.0], 0.1: [9.0, 0.0]}) == 0.5
    assert best_scale({0.1: [1.0], 1.0: [1.0]}) == 1.0


def test_tuning_seeds_are_no_seeds_of_a_comparison():
    jobs = tuning_jobs("toy", horizon=20, seed=5)
    assert len(jobs) == len(RADIUS_SCALES) * 10
    assert min(job.seed for job in jobs) > 5 + 999_999


def test_tuning_repeats_itself():
    jobs = tuning_jobs("toy", horizon=15, seed=0)
    found = []
    for _ in range(2):
        progress = Progress("tuning", total=len(jobs), unit="runs")
        with Workers(1) as workers:
            found.append(tune_radius(jobs, workers=workers, progress=progress))
    assert found[0] == found[1]
    assert found[0] in RADIUS_SCALES


def test_tuned_oful_beats_the_theoretical_radius(tmp_path):
    request = Request(
        problem="toy", horizon=60, algorithms=("oful", "oful-tuned"), repetitions=10, seed=3
    )
    found = compare(request, out=tmp_path, jobs=1).summaries
    assert found["oful-tuned"].regret < found["oful"].regret
    assert found["oful-tuned"].radius_scale in RADIUS_SCALES
    assert found["oful"].radius_scale is None
