"""Solvers simulated on clusters: kept curves, decisions on them, and windows of coupled runs."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import simulated
from simulated_parts.curves import COUPLED, load_curves
from simulated_parts.simulate import CLUSTERS, PAIRS, SOLVERS, Simulator


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
