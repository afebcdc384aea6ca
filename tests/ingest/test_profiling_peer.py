"""Summaries of profiling files and databases, beside precice-profiling's own figures of the same runs.

Databases of it lie among the samples. PRECICE_PROFILING_MERGE names its program, for tutorials (PRECICE_TUTORIALS, and
PRECICE_NUTILS_PYTHON for those with Nutils), for the directory of any finished run without
stores (PRECICE_RUN) and for the benchmark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from profiling_helpers import DATA, case, database
from record_helpers import environment
from tutorial_runs import CASES, NUTILS, Tutorial, lay_out, run

from precice_lb.cli import main

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from profiling_peer import differences, totals_of, totals_printed  # noqa: E402

MERGED = sorted(path.name.removesuffix(".db.gz") for path in (DATA / "databases").glob("*.db.gz"))
MERGE = os.environ.get("PRECICE_PROFILING_MERGE")


def summed_up(capsys: pytest.CaptureFixture[str], source: Path) -> dict[str, object]:
    arguments = ["summary", str(source), "--format", "json", "--per-rank", "--warmup", "0"]
    assert main(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return dict(found)


@pytest.mark.parametrize("sample", MERGED)
def test_figures_are_those_of_the_database(tmp_path: Path, capsys: pytest.CaptureFixture[str], sample: str) -> None:
    merged, source = database(tmp_path / "merged", sample), case(tmp_path / "run", sample)
    configuration = (source / "precice-config.xml").read_text()
    totals = totals_of(merged)
    assert totals
    for found in (summed_up(capsys, merged), summed_up(capsys, source)):
        assert differences(found, totals, merged, configuration) == []
    # A microsecond more is seen.
    name, rank = next(iter(totals))
    more = {**totals, (name, rank): {**totals[name, rank], "solver.advance": totals[name, rank]["solver.advance"] + 1}}
    assert len(differences(found, more, merged, configuration)) == 1


@pytest.mark.precice
@pytest.mark.skipif(not MERGE, reason="PRECICE_PROFILING_MERGE does not name precice-profiling-merge")
@pytest.mark.parametrize("tutorial", [*CASES, *NUTILS], ids=lambda tutorial: tutorial.directory)
def test_figures_of_tutorials_are_what_analyze_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tutorial: Tutorial
) -> None:
    source = tmp_path / tutorial.directory
    lay_out(tutorial, source)
    codes = {name: code for name, (code, _, _) in run(tutorial, source, []).items()}
    assert codes == dict.fromkeys(tutorial.participants, 0)
    compare(source, tmp_path, capsys)


@pytest.mark.skipif(not MERGE, reason="PRECICE_PROFILING_MERGE does not name precice-profiling-merge")
@pytest.mark.skipif("PRECICE_RUN" not in os.environ, reason="PRECICE_RUN does not name a finished run of preCICE")
def test_figures_of_any_finished_run_are_what_analyze_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(Path(os.environ["PRECICE_RUN"]), tmp_path, capsys)


@pytest.mark.skipif(not MERGE, reason="PRECICE_PROFILING_MERGE does not name precice-profiling-merge")
def test_the_benchmark_runs_and_agrees_with_the_peer(tmp_path: Path) -> None:
    program = ROOT / "benchmarks" / "profiling_summary.py"
    command = [sys.executable, program, "--size", "0.5", "--files", "6", "--repeats", "1", "--peer", str(MERGE)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path, env=environment()
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "all figures of 6 ranks agree, and of 6 with what analyze prints" in result.stdout


def compare(source: Path, scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compare the summary of raw files, and of what was merged from them, with what the peer prints."""
    merged = scratch / "profiling.db"
    merge = Path(str(MERGE))
    subprocess.run([merge, source, "--output", merged], check=True, capture_output=True, timeout=300)
    # Configuration and iterations logs lie beside a database, or below.
    for path in (*source.rglob("precice-*-iterations.log"), source / "precice-config.xml"):
        shutil.copy(path, scratch)
    configuration = (source / "precice-config.xml").read_text()
    found = [summed_up(capsys, source), summed_up(capsys, merged)]
    for name, part in found[0]["participants"].items():  # type: ignore[attr-defined]
        table = scratch / f"{name}.csv"
        command = [merge.with_name("precice-profiling-analyze"), name, merged, "--unit", "us", "--output", table]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        printed = totals_printed(name, table)
        assert len(printed) == min(part["ranks"], 3)
        for each in found:
            assert differences(each, printed, merged, configuration) == []
