"""How complete the records of a participant are: ranks that are missing, and those that end early."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import case, report, summed_up
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb import recommend_split
from precice_lb.check import check_runs
from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import import_profiling


def first_lines(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command prints first, in one line."""
    assert main(list(map(str, arguments))) == 0
    return " ".join(capsys.readouterr().out.split())[:400]


@pytest.fixture
def reported(tmp_path: Path) -> Path:
    return report(tmp_path, "rank-1-missing")


def test_a_missing_rank_is_said_first_and_nothing_is_compared(
    reported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not compared: there are 1 of 2 ranks of Flow (without rank 1)" in first_lines(capsys, "summary", reported)
    run = summed_up(capsys, reported)
    assert run["imbalance"] is None
    assert {name: part["missing_ranks"] for name, part in run["participants"].items()} == {"Flow": [1], "Shell": []}
    store = tmp_path / "store"
    assert main(["import", str(reported), "--output", str(store)]) == 0
    assert "found 1 of 2 ranks, without rank 1" in capsys.readouterr().err.splitlines()[0]
    assert "missing ranks" in [finding.kind for finding in check_runs(load_runs([store])).findings]


def test_nothing_is_learned_where_the_slowest_rank_may_be_missing(
    reported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    import_profiling([reported], store)
    line = refused(capsys, "recommend", store, "--ranks", "4")
    assert "found that run Flow:2 Shell:2 has 1 of 2 ranks of Flow (without rank 1)" in line
    assert "--set runs.accept_missing_ranks=true" in line
    assert main(["recommend", str(store), "--ranks", "4", "--set", "runs.accept_missing_ranks=true"]) == 0
    assert recommend_split(store, 4, accept_missing_ranks=True).ranks == {"Flow": 2, "Shell": 2}


def test_waits_of_secondary_ranks_alone_are_no_waits_for_partners(
    reported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (reported / "precice-profiling" / "Shell-0-2.txt").unlink()
    part = summed_up(capsys, reported)["participants"]["Shell"]
    assert part["missing_ranks"] == [0]
    assert part["wait_seconds"] is part["partner_wait"]["mean_seconds"] is None
    assert part["solve"]["mean_seconds"] > 0
    assert "rank 0 is missing" in part["timing_problems"][0]["problem"]


def test_a_recorded_rank_0_that_is_missing_is_no_less_missing(tmp_path: Path) -> None:
    for rank in (1, 2):
        table = [row(window, 0.1, 0.3, 0.2) for window in range(1, 6)]
        write_store(tmp_path, table, "A", rank, 3, timing_source="precice-profiling fundamental")
    (run,) = load_runs([tmp_path])
    assert run.incomplete == "2 of 3 ranks of A (without rank 0)"
    assert not run.participants["A"].compute_measured
    assert np.isnan(run.participants["A"].rank_wait).all()


def test_a_rank_without_usable_records_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = case(tmp_path / "run", "synchronize")
    path = source / "precice-profiling" / "A-1-2.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    assert "1 of 2 ranks of A (without rank 1)" in first_lines(capsys, "summary", source)


def test_a_rank_that_ends_early_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, windows in enumerate((40, 7, 40)):
        write_store(tmp_path, [row(window, 0.1, 0.3, 0.2) for window in range(1, windows + 1)], "A", rank, 3)
    (run,) = load_runs([tmp_path])
    assert len(run.participants["A"].windows) == 7
    text = "the records of rank 1 of A end after 7 of 40 calls of advance"
    assert text in " ".join(str(summed_up(capsys, tmp_path)["remarks"]).split())
    assert main(["check", str(tmp_path), "--format", "json"]) == 1
    assert text in capsys.readouterr().out
