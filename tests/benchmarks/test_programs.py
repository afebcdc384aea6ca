"""The programs of the benchmarks: their truth by hand and by brute force, and that they print what they find."""

from __future__ import annotations

import csv
import json
import multiprocessing.dummy
import shutil
from itertools import product
from pathlib import Path

import decisions
import numpy as np
import pytest
import regret as benchmark
import simulated
from campaign_parts.cases import LEAST, draw_case
from campaign_parts.course import course_text, courses
from regret_parts.decide import Split, choose, regret
from regret_parts.families import FAMILIES
from regret_parts.readings import draw_pair
from simulated_parts.curves import COUPLED

DIFFUSIVE, GRANULAR, STEPPED = FAMILIES
RANKS = np.arange(1.0, 513.0)


def test_regret_and_choice_are_those_of_trying_all_splits() -> None:
    pair = draw_pair(GRANULAR, 9, 1)
    first, second = (solver(RANKS) for solver in pair.solvers)
    windows = {p: max(first[p - 1], second[40 - p - 1]) for p in range(2, 39)}
    for p in (2, 17, 38):
        expected = windows[p] / min(windows.values()) - 1
        assert regret(pair.solvers, Split((p, 40 - p)), 40, (2, 38)) == pytest.approx(expected)
    best = min(windows, key=windows.__getitem__)
    split = choose(first[None], second[None], 40, (2, 38))
    assert split == Split((best, 40 - best))
    assert regret(pair.solvers, split, 40, (2, 38)) == 0


def test_the_best_split_is_that_of_brute_force() -> None:
    for family, participants in product(FAMILIES, (2, 3)):
        case = draw_case(family, participants, 16, (0.05,), 1, 0)
        ranks = range(LEAST, 17)
        splits = [dict(zip(case.names, s, strict=True)) for s in product(ranks, repeat=participants) if sum(s) <= 16]
        windows = [case.window(split) for split in splits]
        assert case.best == pytest.approx(min(windows))
        best = splits[int(np.argmin(windows))]
        assert case.regret(best) == pytest.approx(0.0, abs=1e-12)
        assert case.cost(best) == pytest.approx(sum(best.values()) / 16)


# --- programs --------------------------------------------------------------------------------------------------------


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others take longer to start than what they are to do."""
    monkeypatch.setattr(multiprocessing.get_context("spawn"), "Pool", multiprocessing.dummy.Pool)


@pytest.mark.usefixtures("_in_this_process")
def test_what_is_lost_after_each_run_is_told() -> None:
    found = courses("seen", 64, cases=2, runs=2, stops=False, seed=1, jobs=1)
    assert found
    for rows in found:
        assert rows.shape == (2, 3)
        assert (rows[:, :2] > -1e-9).all()
        # The best measured split only becomes better, and every run costs.
        assert rows[1, 1] <= rows[0, 1]
        assert rows[1, 2] > rows[0, 2] > 0
    assert f"{100 * np.mean([rows[1, 0] for rows in found]):.2f} ±" in course_text("seen", 64, found, [1, 2])


@pytest.mark.usefixtures("_in_this_process")
def test_regrets_are_written_as_they_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "regret.json"
    arguments = ["--pairs", "2", "--learners", "bayes", "oracle", "--families", "unseen", "--output", str(output)]
    benchmark.main([*arguments, "--noise", "0.02", "--budgets", "32"])
    (found,) = json.loads(output.read_text(encoding="utf-8"))
    # The oracle does not know these families.
    assert set(found["regret_percent"]["pooled"]) == {"bayes"}
    assert f"{found['regret_percent']['nodes']['bayes']['32']['mean']:.2f} [" in capsys.readouterr().out
    simulated.main(["--pairs", "3", "--budgets", "64", "--readings", "5", "--output", str(output)])
    printed, rows = capsys.readouterr().out, json.loads(output.read_text(encoding="utf-8"))["readings"]["5"]
    assert list(rows) == ["bayes", "bayes-known", "line", "equal", "smooth"]
    assert all(f"{row['regret_percent'][0]['mean']:6.2f} [" in printed for row in rows.values())
    assert max(row["regret_percent"][0]["mean"] for row in rows.values()) > 1


def kept_rows(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["set"], row["budget"], row["contestant"]): row for row in csv.DictReader(file)}


@pytest.mark.usefixtures("_in_this_process")
def test_figures_of_a_set_replace_those_kept_of_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kept_rows(decisions.KEPT)
    assert {name for name, _, _ in before} == {*decisions.PUBLISHED, *decisions.RANDOM}
    monkeypatch.setattr(decisions, "KEPT", Path(shutil.copy(decisions.KEPT, tmp_path)))
    decisions.main(["--sets", "published-quarter", "--pairs", "2", "--write"])
    after = kept_rows(decisions.KEPT)
    assert list(after) == list(before)
    for key, row in after.items():
        measured = key[0] == "published-quarter" and key[2] != "bayes-alone"
        assert row["pairs"] == ("2" if measured else before[key]["pairs"])


def test_windows_of_coupled_runs_are_those_of_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    simulated.main(["--coupled"])
    lines = capsys.readouterr().out.splitlines()[1:]
    with COUPLED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for line, row in zip(lines, rows, strict=True):
        solving = [float(row["first_seconds"]), float(row["second_seconds"])]
        expected = max(solving) if row["coupling"] == "parallel" else sum(solving)
        off = 100 * (expected / float(row["window_seconds"]) - 1)
        assert f"{off:+.2f} %" in line
        assert -10 < off <= 0.01
