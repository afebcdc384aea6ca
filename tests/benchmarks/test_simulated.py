"""Solvers simulated on clusters: kept curves, decisions on them, and windows of coupled runs."""

from __future__ import annotations

import csv
import json
import math
import shutil
from pathlib import Path

import pytest
import simulated
from regret_parts.decide import decide
from simulated_parts.curves import COUPLED, CURVES, draw_pair, load_curves
from simulated_parts.simulate import CLUSTERS, PAIRS, SELECTORS, SOLVERS, Simulator, rank_counts

CORES = [cluster.cores for cluster in CLUSTERS]


def test_every_solver_was_simulated_on_every_cluster_at_every_rank_count_listed() -> None:
    with CURVES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert int(row["nodes"]) == math.ceil(int(row["ranks"]) / int(row["cores_per_node"]))
        assert float(row["seconds"]) > 0
    curves = load_curves()
    assert sorted((curve.name, curve.cores_per_node) for curve in curves) == sorted(
        (name, cores) for name in SOLVERS for cores in CORES
    )
    assert len(SOLVERS) >= 12
    for cores in CORES:
        assert {curve.source for curve in curves if curve.cores_per_node == cores} == set(SELECTORS)
    for curve in curves:
        assert curve.ranks.tolist() == rank_counts(curve.cores_per_node)
        assert 150 < len(curve.ranks) < 220


def test_a_learner_is_told_of_the_machine() -> None:
    pair = draw_pair(load_curves(), 64, 1, 1, 0, 0.03, 5)
    # What cannot be: that it is refused shows that it arrives.
    asked = (pair.ranks, pair.seconds, [64], [(1, 63)])
    assert decide("bayes", *asked, machine={"cores_per_node": 0}) == [None]
    (split,) = decide("bayes", *asked, machine={"cores_per_node": pair.cores_per_node})
    assert split is not None
    assert sum(split.ranks) <= 64


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "simulated.json"
    simulated.main(["--pairs", "3", "--budgets", "64", "--readings", "5", "1", "--output", str(output)])
    results = json.loads(output.read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    for readings in ("5", "1"):
        rows = results["readings"][readings]
        assert list(rows) == ["bayes", "bayes-known", "line", "equal", "smooth"]
        for row in rows.values():
            (regret,) = row["regret_percent"]
            assert 0 <= regret["median"] <= regret["p95"]
            assert f"{regret['mean']:6.2f} [" in printed
    assert max(row["regret_percent"][0]["mean"] for row in results["readings"]["5"].values()) > 1


def test_windows_of_coupled_runs_are_those_of_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    simulated.main(["--coupled"])
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 2 * sum(len(splits) for *_, splits in PAIRS)
    with COUPLED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for line, row in zip(lines, rows, strict=True):
        solving = [float(row["first_seconds"]), float(row["second_seconds"])]
        expected = max(solving) if row["coupling"] == "parallel" else sum(solving)
        off = 100 * (expected / float(row["window_seconds"]) - 1)
        assert f"{off:+.2f} %" in line
        assert -10 < off <= 0.01


@pytest.mark.skipif(shutil.which("smpirun") is None, reason="needs SimGrid")
def test_the_programs_give_the_kept_seconds(tmp_path: Path) -> None:
    simulator = Simulator(tmp_path)
    kept = {(curve.name, curve.cores_per_node): curve for curve in load_curves()}
    for name, words in SOLVERS.items():
        for cluster in CLUSTERS:
            curve = kept[name, cluster.cores]
            ((seconds, _),) = simulator.run(cluster, curve.source, [50], 1, ["alone", *words.split()])
            assert seconds == pytest.approx(curve.seconds[49], rel=1e-5)
