"""The command that runs a chain: where it lives, what it prints, and how it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from segment_helpers import CHAIN, page, write_copies

from precice_lb.cli import main

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]
ONE_SEGMENT = CHAIN.replace("total = 12", "total = 4")


def test_a_chain_lives_beside_its_study_and_tells_of_each_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_copies(tmp_path, chain=ONE_SEGMENT)

    assert main(["chain", str(study)]) == 0

    assert page(tmp_path / "study-chain")["windows_done"] == 4
    shown = capsys.readouterr()
    assert shown.out == f"wrote {tmp_path / 'study-chain' / 'chain.json'}\n"
    _, began, ended, last = shown.err.splitlines()
    assert began == "segment 1 of 1: Left 1, Right 3 ranks, windows 1 to 4 of 4 (start as chain.start says)"
    assert re.fullmatch(r"segment 1 of 1: finished after [0-9.]+ s, 1\.5 s per window", ended)
    assert last == "the chain has come to its end: 4 windows"
    # Every line is kept with its time.
    log = (tmp_path / "study-chain" / "campaign.log").read_text().splitlines()
    assert [line.partition(" ")[2] for line in log] == shown.err.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 ", line) for line in log)


def test_a_chain_that_stops_ends_with_exit_code_1_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_copies(tmp_path, chain=ONE_SEGMENT, runs="retries = 0")
    solver = tmp_path / "case" / "solver.py"
    solver.write_text("import sys\nsys.exit('no such decomposition')\n")

    assert main(["chain", str(study), "-o", str(tmp_path / "chain")]) == 1

    shown = capsys.readouterr()
    assert shown.out == ""
    *_, last = shown.err.splitlines()
    assert last.startswith("precice-lb: error: segment 1 failed")
    assert "no such decomposition" in last
    assert page(tmp_path / "chain")["problem"] in last
