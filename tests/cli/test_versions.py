"""Versions and kinds of nodes on the command line: recommended, and shown in table and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import recommended

from precice_lb.cli import main

ROWS = ["participant,version,ranks,seconds", "Fluid,cpu,2,45.1", "Fluid,cpu,4,22.4", "Fluid,cpu,8,11.3"]
ROWS += ["Fluid,gpu,1,12.0", "Fluid,gpu,2,8.0", "Fluid,gpu,4,6.0", "Solid,,2,20.0", "Solid,,4,10.1", "Solid,,8,5.0"]
CPU, GPU = "{name='cpu', nodes=2, cores_per_node=4}", "{name='gpu', nodes=1, cores_per_node=4, gpus_per_node=2}"
OF_GPU = ("participants.Fluid:gpu.kind=gpu", "participants.Fluid:gpu.gpus_per_rank=1")


def test_versions_are_in_the_table_and_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text("\n".join(ROWS))
    keys = [word for key in (f"machine.kinds=[{CPU}, {GPU}]", *OF_GPU) for word in ("--set", key)]
    assert main(["recommend", str(table), *keys, "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "\nGive Fluid (gpu) 2 ranks and Solid 8 ranks" in text
    assert "Versions, each with its own best split, the recommended one first" in text
    assert "2 cpu + 1 gpu" in text
    values = recommended(capsys, table, *keys)
    assert (values["versions"], values["split"]) == ({"Fluid": "gpu"}, {"Fluid": 2, "Solid": 8})
    assert [choice["versions"]["Fluid"] for choice in values["choices"]] == ["gpu", "cpu"]
