"""Versions and kinds of nodes on the command line: recommended, shown in table, JSON and report, and started."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import recommended, refused

from precice_lb.cli import main

TABLE = """\
participant,version,ranks,seconds
Fluid,cpu,2,45.1
Fluid,cpu,4,22.4
Fluid,cpu,8,11.3
Fluid,gpu,1,12.0
Fluid,gpu,2,8.0
Fluid,gpu,4,6.0
Solid,,2,20.0
Solid,,4,10.1
Solid,,8,5.0
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def kinds(*nodes: str) -> list[str]:
    """Options that say kinds of nodes."""
    keys = ("name", "nodes", "cores_per_node", "gpus_per_node")
    tables = (", ".join(f"{k}={v}" for k, v in zip(keys, kind.split(), strict=False)) for kind in nodes)
    return ["--set", f"machine.kinds=[{', '.join(f'{{{table}}}' for table in tables)}]"]


CPU = kinds("'cpu' 2 4")
KINDS = [*kinds("'cpu' 2 4", "'gpu' 1 4 2"), "--set", "participants.Fluid:gpu.kind=gpu"]
KINDS += ["--set", "participants.Fluid:gpu.gpus_per_rank=1"]


def test_versions_are_in_the_table_and_in_json(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", str(table), *KINDS, "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "\nGive Fluid (gpu) 2 ranks and Solid 8 ranks" in text
    assert "Versions, each with its own best split, the recommended one first" in text
    assert "2 cpu + 1 gpu" in text
    values = recommended(capsys, table, *KINDS)
    assert (values["versions"], values["split"]) == ({"Fluid": "gpu"}, {"Fluid": 2, "Solid": 8})
    assert [choice["versions"]["Fluid"] for choice in values["choices"]] == ["gpu", "cpu"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*CPU, "--set", "participants.Flud.kind=cpu"], "found 'Flud'; did you mean 'Fluid'?"),
        (["--ranks", "8", "--set", "participants.Solid.kind=gpu"], "kind of Solid: expected no kind, as no"),
        ([*CPU, "--ranks", "8"], "expected the budget as kinds of nodes alone"),
    ],
)  # fmt: skip
def test_bad_words_are_refused_in_one_line(
    table: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, "recommend", table, *words)


def test_launch_says_which_version_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from calibrate_helpers import write_case

    monkeypatch.chdir(write_case(tmp_path))
    words = ["--write", "scripts", "--", "python", "solver.py", "Left", ":", "python", "solver.py", "Right"]
    assert main(["launch", "--split", "Left:gpu=1,Right=1", *words]) == 0
    lines = (tmp_path / "case" / "scripts" / "run.sh").read_text().splitlines()
    (left,) = (line for line in lines if "solver.py Left" in line)
    (right,) = (line for line in lines if "solver.py Right" in line)
    assert lines[1] == "# Left:gpu 1, Right 1: 2 ranks"
    assert "PRECICE_LB_VERSION=gpu" in left
    assert "PRECICE_LB_VERSION" not in right
    capsys.readouterr()
    assert "a participant twice" in refused(capsys, "launch", "--split", "Left:gpu=1,Left=1", *words)
