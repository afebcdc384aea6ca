"""precice-lb inside on stores of real recorded runs, with what was counted there or elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_inside_loads import COSTS, _runs

from precice_lb.cli import main

HELD = [{"fluid": 10.0, "porous": 0.0}, {"fluid": 4.0, "porous": 6.0}, {"fluid": 20.0, "porous": 1.0}]


@pytest.mark.mpi
def test_costs_come_from_runs_on_one_rank_and_say_how_uneven_others_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mpiexec: str
) -> None:
    several = [{"fluid": 4.0, "porous": 1.0}, {"fluid": 6.0, "porous": 2.0}]
    _runs(tmp_path / "stores", [*([held] for held in HELD), several], mpiexec)
    command = ["inside", str(tmp_path / "stores"), "--format", "json"]
    assert main(command) == 2
    assert "--participant: expected one of A, B, found none; name one" in capsys.readouterr().err
    assert main([*command, "--participant", "A"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["participant"], told["basis"]) == ("A", "runs on one rank, where nothing waits")
    assert {name: cost["seconds"] for name, cost in told["costs"].items()} == pytest.approx(COSTS, rel=0.05)
    busy = [sum(COSTS[name] * count for name, count in held.items()) for held in several]
    # They waited for each other, so these are not the seconds that were measured.
    assert told["runs"][3]["seconds"] == [None, None]
    assert told["runs"][3]["predicted"] == pytest.approx(busy, rel=0.05)
    assert told["imbalance"] == pytest.approx(1 - min(busy) / max(busy), abs=0.02)
    assert main(["inside", str(tmp_path / "stores"), "--participant", "A"]) == 0
    assert ", (max - min)/max of run 3, by the fitted costs" in capsys.readouterr().out
