"""precice-lb inside on stores of real recorded runs, with what was counted there or elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_inside_loads import COSTS, _runs

from precice_lb.cli import main

HELD = [{"fluid": 10.0, "porous": 0.0}, {"fluid": 4.0, "porous": 6.0}, {"fluid": 20.0, "porous": 1.0}]


def test_costs_come_from_recorded_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _runs(tmp_path / "stores", [[held] for held in HELD])
    command = ["inside", str(tmp_path / "stores"), "--format", "json"]
    assert main(command) == 2
    assert "--participant: expected one of A, B, found none; name one" in capsys.readouterr().err
    assert main([*command, "--participant", "A"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["participant"], told["basis"]) == ("A", "runs on one rank, where nothing waits")
    assert {name: cost["seconds"] for name, cost in told["costs"].items()} == pytest.approx(COSTS, rel=0.05)
    # The same counts from a table and under other names.
    rows = [f"{run},0,{name[0]},{count}" for run, held in enumerate(HELD) for name, count in held.items()]
    (tmp_path / "counts.csv").write_text("\n".join(["run,rank,feature,count", *rows]))
    table = ["--participant", "A", "--counts", str(tmp_path / "counts.csv"), "--features", "f,p"]
    assert main([*command, *table]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [told["costs"][name]["seconds"] for name in "fp"] == pytest.approx(list(COSTS.values()), rel=0.05)


@pytest.mark.mpi
def test_runs_on_one_rank_say_how_uneven_others_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mpiexec: str
) -> None:
    several = [{"fluid": 4.0, "porous": 1.0}, {"fluid": 6.0, "porous": 2.0}]
    _runs(tmp_path / "stores", [*([held] for held in HELD), several], mpiexec)
    assert main(["inside", str(tmp_path / "stores"), "--participant", "A", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    busy = [sum(COSTS[name] * count for name, count in held.items()) for held in several]
    # They waited for each other, so these are not the seconds that were measured.
    assert told["runs"][3]["seconds"] == [None, None]
    assert told["runs"][3]["predicted"] == pytest.approx(busy, rel=0.05)
    assert told["imbalance"] == pytest.approx(1 - min(busy) / max(busy), abs=0.02)
    assert main(["inside", str(tmp_path / "stores"), "--participant", "A"]) == 0
    assert ", (max - min)/max of run 3, by the fitted costs" in capsys.readouterr().out


def test_cells_of_a_mesh_with_its_partition_are_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mpiexec: str
) -> None:
    meshio = pytest.importorskip("meshio", reason="no meshio: install the extra meshio")
    material, owner = np.repeat([1, 2], [12, 8]), np.array([0, 0, 0, 1] * 3 + [1, 1, 1, 2] * 2)
    points = np.array([[x, y, 0.0] for x in range(21) for y in range(2)])
    quads = np.arange(20)[:, None] * 2 + np.array([0, 2, 3, 1])
    arrays = {"material": [material], "rank": [owner]}
    mesh = tmp_path / "strip.vtu"
    meshio.Mesh(points, [("quad", quads)], cell_data=arrays).write(mesh)
    held = [
        {
            "fluid": float(np.sum((owner == rank) & (material == 1))),
            "porous": float(np.sum((owner == rank) & (material == 2))),
        }
        for rank in range(3)
    ]
    _runs(tmp_path / "stores", [held], mpiexec)
    command = ["inside", str(tmp_path / "stores"), "--participant", "A", "--sections", "assemble", "--mesh", str(mesh)]
    command += ["--features", "material=1,material=2", "--partition", "rank", "--format", "json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["basis"] == "profiling sections of the solver"
    # Half of the work is in the section.
    assert [told["costs"][f"material={m}"]["seconds"] for m in (1, 2)] == pytest.approx([5e-4, 2.5e-3], rel=0.05)
    assert told["partition"]["compared_with"] == "run 0"
    assert told["imbalance_after"] < told["imbalance"]
    assert main([*command[:4], "--partition", "rank"]) == 2
    assert "--partition: expected --mesh" in capsys.readouterr().err
