from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from helba.errors import InvalidInput, RunFailed
from helba.lab.algorithm import ALGORITHMS as EVERY_ALGORITHM
from helba.lab.comparison import compare as module
from helba.lab.comparison import store, tuning
from helba.lab.comparison.compare import Request, compare
from helba.lab.comparison.store import Store
from helba.lab.rows import read_column
from helba.lab.runner import policy_for, settings_for
from helba.problems import make_problem
from tests.sweep import sweep

ALGORITHMS = ("oful", "rsoful-tr", "uniform")


def request(**changes) -> Request:
    return Request(
        **{"problem": "toy", "horizon": 30, "algorithms": ALGORITHMS, "repetitions": 3, **changes}
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    return out, compare(request(), out=out, jobs=1)


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "out")


def times(out) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "rows").iterdir()}


def test_comparison_writes_rows_manifest_and_plot(finished):
    out, found = finished
    assert {path.name for path in (out / "rows").iterdir()} == {
        f"{name}-{index}.csv" for name in ALGORITHMS for index in range(3)
    }
    assert {path.name for path in out.iterdir()} == {
        ".lock",
        "rows",
        "manifest.json",
        "regret.png",
        "regret.svg",
    }
    assert found.plot == out / "regret.png"
    assert found.resumed == 0


def test_comparison_summary_is_that_of_the_rows(finished):
    out, found = finished
    for name, summary in found.summaries.items():
        paths = [out / "rows" / f"{name}-{index}.csv" for index in range(3)]
        final = [read_column(path, column="regret")[-1] for path in paths]
        assert summary.regret == pytest.approx(sum(final) / 3)
        assert summary.updates_max == max(read_column(p, column="updates")[-1] for p in paths)
        assert summary.updates <= summary.update_bound


def test_comparison_sums_up_what_a_twin_decided(tmp_path):
    """Standard error, agreement and ties, recomputed from the rows on disk."""
    wanted = request(problem="synthetic", algorithms=("helba-paper",), repetitions=4, dim=2, arms=3)
    summary = compare(wanted, out=tmp_path, jobs=1).summaries["helba-paper"]
    columns = {
        name: [
            read_column(tmp_path / "rows" / f"helba-paper-{index}.csv", column=name)
            for index in range(4)
        ]
        for name in ("regret", "agrees", "tie", "clipped")
    }
    final = np.array([run[-1] for run in columns["regret"]])
    assert summary.regret_se == pytest.approx(final.std(ddof=1) / 2)
    assert summary.agreement == pytest.approx(np.mean(columns["agrees"]))
    assert summary.ties == pytest.approx(np.mean([run.sum() for run in columns["tie"]]))
    assert summary.clipped == sum(run[-1] for run in columns["clipped"])
    assert summary.overflows == 0


def test_fingerprint_changes_with_settings_versions_and_sources(tmp_path, monkeypatch):
    settings = {"horizon": 3}
    first = store.take_fingerprint(settings)
    assert store.take_fingerprint({"horizon": 4}) != first
    assert store.take_fingerprint(settings) == first
    with monkeypatch.context() as patch:
        patch.setattr(store, "version", lambda name: f"{name} 99")
        assert store.take_fingerprint(settings) != first
    copy = tmp_path / "helba" / "lab" / "comparison" / "store.py"
    shutil.copytree(Path(store.__file__).parents[2], tmp_path / "helba")
    with monkeypatch.context() as patch:
        patch.setattr(store, "__file__", str(copy))
        assert store.take_fingerprint(settings) == first
        for name in ("bandits/oful.py", "lab/comparison/tuning.py", "problems/toy.py"):
            source = tmp_path / "helba" / name
            before, text = store.take_fingerprint(settings), source.read_text()
            source.write_text(text + "\n# changed\n")
            assert store.take_fingerprint(settings) != before


def test_policies_of_two_repetitions_draw_other_numbers():
    wanted = {"problem_seed": 0}, {"problem_seed": 1}
    problem = make_problem("toy")
    settings = settings_for(problem, horizon=40)
    first, second = (policy_for("uniform", settings=settings, **seed) for seed in wanted)
    contexts = np.zeros((2, 2))
    assert [first.select(contexts) for _ in range(40)] != [
        second.select(contexts) for _ in range(40)
    ]


@pytest.mark.slow
def test_comparison_on_the_toy_problem_is_what_we_promise(tmp_path):
    """The acceptance of the foundation: updates, the order of regrets, bounds, agreement."""
    wanted = Request(problem="toy", horizon=130, repetitions=sweep(8, long=25))
    found = compare(wanted, out=tmp_path, jobs=sweep(1, long=None)).summaries
    assert set(found) == set(EVERY_ALGORITHM)
    for name in ("rsoful", "rsoful-tr"):
        assert 8 <= found[name].updates <= 12
    assert found["helba"].regret <= min(found["helba-sqrt"].regret, found["oful"].regret)
    assert found["oful-tuned"].regret <= found["oful"].regret
    assert found["oful"].regret < 0.5 * found["uniform"].regret
    for name, summary in found.items():
        assert summary.updates_max <= summary.update_bound
        assert summary.agreement is None or summary.agreement >= 0.99, name
        assert summary.overflows == 0


def test_comparison_report_has_the_documented_fields(finished):
    report = finished[1].as_json()
    assert report["problem"] == "toy"
    assert (report["horizon"], report["repetitions"]) == (30, 3)
    assert list(report["algorithms"]) == list(ALGORITHMS)
    for entry in report["algorithms"].values():
        assert {"regret", "regret_se", "updates", "seconds", "radius_scale"} <= set(entry)
    json.dumps(report, allow_nan=False)


def test_comparison_again_repeats_nothing(finished, folder):
    before = times(folder)
    again = compare(request(), out=folder, jobs=1)
    assert times(folder) == before
    assert again.resumed == 9
    assert again.summaries == finished[1].summaries


def test_comparison_runs_only_what_is_missing(finished, folder):
    before = times(folder)
    (folder / "rows" / "oful-1.csv").unlink()
    again = compare(request(), out=folder, jobs=1)
    assert again.resumed == 8
    assert {name for name, time in times(folder).items() if before[name] != time} == {"oful-1.csv"}
    assert again.summaries["oful"].regret == finished[1].summaries["oful"].regret


def test_comparison_with_more_repetitions_extends(folder):
    again = compare(request(repetitions=4), out=folder, jobs=1)
    assert again.resumed == 9
    assert len(times(folder)) == 12


def test_comparison_refuses_rows_of_other_settings(folder):
    before = times(folder)
    with pytest.raises(InvalidInput, match="holds rows with horizon 30, not 31"):
        compare(request(horizon=31), out=folder, jobs=1)
    assert times(folder) == before


def test_comparison_refuses_rows_of_another_version(folder):
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    older = {name: content[name] for name in ("tool", "settings")}  # of a simpler format
    manifest.write_text(json.dumps({**older, "fingerprint": "0" * 64}))
    with pytest.raises(InvalidInput, match="holds rows made by another version"):
        compare(request(), out=folder, jobs=1)
    assert compare(request(), out=folder, jobs=1, overwrite=True).resumed == 0


def test_comparison_refuses_a_damaged_manifest(folder):
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["tuning"]
    manifest.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="holds a damaged manifest"):
        compare(request(), out=folder, jobs=1)
    assert compare(request(), out=folder, jobs=1, overwrite=True).resumed == 0


def test_comparison_overwrites_only_its_own_files_and_only_when_told(folder):
    mine = folder / "rows" / "notes.csv"
    mine.write_text("mine")
    again = compare(request(horizon=31, repetitions=2), out=folder, jobs=1, overwrite=True)
    assert again.resumed == 0
    assert mine.read_text() == "mine"
    mine.unlink()
    assert set(times(folder)) == {f"{name}-{index}.csv" for name in ALGORITHMS for index in (0, 1)}
    for path in (folder / "rows").iterdir():
        assert len(read_column(path, column="round")) == 31


@pytest.mark.parametrize("damage", ["", "round,arm\n1,0\n", "cut", "other"])
def test_comparison_runs_again_what_is_damaged(finished, folder, damage):
    path = folder / "rows" / "oful-1.csv"
    whole = path.read_text()
    other = (folder / "rows" / "oful-2.csv").read_text()
    path.write_text({"cut": whole[: len(whole) // 2], "other": other}.get(damage, damage))
    again = compare(request(), out=folder, jobs=1)
    assert again.resumed == 8
    assert path.read_text() == whole
    assert again.summaries["oful"].regret == finished[1].summaries["oful"].regret


def test_comparison_folder_serves_one_process_at_a_time(folder):
    with (
        Store(folder, settings=module._row_settings(request())),
        pytest.raises(RunFailed, match="is in use by another process"),
    ):
        compare(request(), out=folder, jobs=1)
    assert compare(request(), out=folder, jobs=1).resumed == 9


def test_comparison_keeps_tuning_runs_when_interrupted(tmp_path, monkeypatch):
    """Tuning goes on where it stopped: no tuning run is made twice."""
    real, ran = tuning.run_tuning_job, []

    def interrupt(job):
        if len(ran) == 7:
            ran.append(None)
            raise KeyboardInterrupt
        ran.append(str(job))
        return real(job)

    monkeypatch.setattr(tuning, "run_tuning_job", interrupt)
    wanted = request(algorithms=("oful-tuned",), repetitions=1, horizon=5)
    with pytest.raises(RunFailed, match="interrupted"):
        compare(wanted, out=tmp_path, jobs=1)
    found = compare(wanted, out=tmp_path, jobs=1)
    runs = [run for run in ran if run is not None]
    assert len(runs) == len(set(runs)) == len(tuning.tuning_jobs("toy", horizon=5, seed=0))
    assert found.summaries["oful-tuned"].radius_scale in tuning.RADIUS_SCALES


def test_comparison_repetition_is_the_problem_of_the_next_seed(folder, tmp_path):
    shifted = tmp_path / "shifted"
    compare(request(seed=1, repetitions=1, algorithms=("oful",)), out=shifted, jobs=1)
    one, other = (shifted / "rows" / "oful-0.csv"), (folder / "rows" / "oful-1.csv")
    assert one.read_text() == other.read_text()


@pytest.mark.parametrize("content", [None, "{}", "not json", '{"tool": "another"}'])
def test_comparison_refuses_a_folder_of_other_files(tmp_path, content):
    name = "thesis.txt" if content is None else "manifest.json"
    (tmp_path / name).write_text(content or "chapter 1")
    with pytest.raises(InvalidInput, match="out must be"):
        compare(request(), out=tmp_path, jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_comparison_refuses_a_file_as_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(InvalidInput, match="this is a file"):
        compare(request(), out=path, jobs=1)


def test_comparison_that_fails_names_the_run_and_keeps_the_others(tmp_path, monkeypatch):
    real = module.policy_for

    def break_one(algorithm, *, settings, problem_seed):
        if (algorithm, problem_seed) == ("rsoful-tr", 1):
            raise ZeroDivisionError("division by zero")
        return real(algorithm, settings=settings, problem_seed=problem_seed)

    monkeypatch.setattr(module, "policy_for", break_one)
    with pytest.raises(RunFailed, match="rsoful-tr, repetition 1, failed: division by zero"):
        compare(request(), out=tmp_path, jobs=1)
    monkeypatch.undo()
    assert compare(request(), out=tmp_path, jobs=1).resumed == 4


def test_comparison_interrupted_says_what_is_finished(tmp_path, monkeypatch):
    real = module.policy_for

    def interrupt(algorithm, *, settings, problem_seed):
        if problem_seed == 2:
            raise KeyboardInterrupt
        return real(algorithm, settings=settings, problem_seed=problem_seed)

    monkeypatch.setattr(module, "policy_for", interrupt)
    words = "interrupted: 6 of 9 runs are finished and kept; the same command resumes"
    with pytest.raises(RunFailed, match=words):
        compare(request(), out=tmp_path, jobs=1)
    monkeypatch.undo()
    assert compare(request(), out=tmp_path, jobs=1).resumed == 6


def test_comparison_is_the_same_on_two_processes(finished, tmp_path):
    found = compare(request(), out=tmp_path / "out", jobs=2)
    for path in (finished[0] / "rows").iterdir():
        assert path.read_bytes() == (tmp_path / "out" / "rows" / path.name).read_bytes()
    assert found.as_json()["algorithms"].keys() == finished[1].summaries.keys()
    assert (tmp_path / "out" / "regret.svg").read_bytes() == (
        finished[0] / "regret.svg"
    ).read_bytes()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithms": ("oful", "none")}, "algorithm must be one of oful, .*, got 'none'"),
        ({"algorithms": ()}, "algorithms must be at least one of"),
        ({"repetitions": 0}, "repetitions must be 1 to 999999, got 0"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"problem": "game"}, "problem must be one of .*, got 'game'"),
        ({"dim": 5}, "dim must be 2 on the toy problem, got 5"),
    ],
)
def test_comparison_request_names_the_value_and_what_is_allowed(changes, words):
    with pytest.raises(InvalidInput, match=words):
        request(**changes)
