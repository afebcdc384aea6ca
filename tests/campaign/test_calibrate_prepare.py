"""What a case needs before a run: commands and templates, links, retries, a full disk."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from calibrate_helpers import SOLVER, quiet, run_study, write_case, write_study

from precice_lb.campaign import Event, read_study, run_campaign
from precice_lb.exceptions import CalibrationError, StudyError

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]

# Writes one file per rank, as a decomposition does, and leaves a trace of having run.
PARTITION = """\
import os, pathlib, sys
count = int(sys.argv[1])
told = int(pathlib.Path("system/dict").read_text().split()[1].rstrip(";"))
assert told == count, (told, count)
for rank in range(count):
    part = pathlib.Path(f"processor{rank}", "constant")
    part.mkdir(parents=True)
    (part / "mesh").write_text(f"part {rank} of {count}")
    (part.parent / "fields").mkdir()
pathlib.Path("undecomposed").unlink()
with open(os.environ["TRACE"], "a") as file:
    file.write(f"{count}\\n")
"""
# Every rank reads its part; they are as many as there are ranks.
READS = f"""{SOLVER}
if name == "Left":
    parts = sorted(here.glob("processor*"))
    assert len(parts) == int(size), (parts, size)
    assert all((part / "fields").is_dir() for part in parts)
    assert not (here / "undecomposed").exists()
    assert "unchanged" in (here / "system" / "other").read_text()
"""


def partitioned(directory: Path, *, runs: str) -> Path:
    """Write a case whose Left is partitioned before it runs."""
    case = write_case(directory, READS)
    (case / "partition.py").write_text(PARTITION)
    (case / "system").mkdir()
    (case / "system" / "dict.in").write_text("subdomains {ranks}; // of {nodes} nodes, {unknown} ${ranks}\n")
    (case / "system" / "other").write_text("unchanged")
    (case / "undecomposed").write_text("0")
    left = 'prepare = ["python partition.py {ranks}"]\ntemplates = ["system/dict.in"]'
    extra = f"[case.environment]\nTRACE = '{directory}/trace'"
    return write_study(directory, runs=runs, left=left, extra=extra, case='link = ["mesh", "*.msh"]')


def test_each_run_is_prepared_for_its_ranks(tmp_path: Path) -> None:
    path = partitioned(tmp_path, runs="splits = [{Left=2, Right=1}, {Left=1, Right=3}]")
    case = tmp_path / "case"
    (case / "mesh").mkdir()
    (case / "mesh" / "points").write_text("many")
    (case / "big.msh").write_text("many")
    (case / "system").chmod(0o555)
    result = run_study(path)
    assert [run.outcome for run in result.runs] == ["finished"] * 2, result.runs
    assert (tmp_path / "trace").read_text().split() == ["2", "1"]
    run = result.directory / result.runs[0].directory / "case"
    assert (run / "system" / "dict").read_text() == "subdomains 2; // of 1 nodes, {unknown} ${ranks}\n"
    assert (run / "processor1" / "constant" / "mesh").read_text() == "part 1 of 2"
    assert not (case / "processor0").exists()
    assert (run / "system").stat().st_mode & 0o700 == 0o700
    assert [os.readlink(run / large) for large in ("mesh", "big.msh")] == [str(case / "mesh"), str(case / "big.msh")]


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_caches_earlier_stores_and_results_of_precice_are_not_copied(tmp_path: Path) -> None:
    left_out = [
        "__pycache__/solver.cpython-311.pyc",
        ".git/config",
        "precice-run/address",
        "precice-profiling/Left-0-1.txt",
        "precice-lb-store/00/Left-0-1.h5",
        "precice-Left-iterations.log",
        "precice-Right-convergence.log",
        "precice-Left-watchpoint-tip.log",
    ]
    kept = ["mesh/fine.msh", "notes.log", ".solverrc"]
    case = write_case(tmp_path)
    for name in (*left_out, *kept):
        (case / name).parent.mkdir(parents=True, exist_ok=True)
        (case / name).write_text(name)

    (run,) = run_study(write_study(tmp_path, runs="splits = [{Left=1, Right=1}]")).finished

    copy = tmp_path / "campaign" / run.directory / "case"
    assert [name for name in left_out if (copy / name).exists()] == []
    assert [(copy / name).read_text() for name in kept] == kept


def test_a_preparation_that_fails_is_a_failed_run_with_its_words(tmp_path: Path) -> None:
    path = partitioned(tmp_path, runs="splits = [{Left=2, Right=1}]")
    (tmp_path / "case" / "system" / "dict.in").write_text("subdomains 7;")
    with pytest.raises(CalibrationError, match=r"prepare for 2 ranks, .*partition\.py 2: .*AssertionError: \(7, 2\)"):
        run_study(path)


FAILS_TWICE = f"""{SOLVER}
if name == "Left" and int(here.parent.name[:3]) < 3:
    sys.exit("no licence")
"""


def test_a_run_that_fails_is_tried_again_as_often_as_the_study_says(tmp_path: Path) -> None:
    events: list[Event] = []
    path = write_study(tmp_path, solver=FAILS_TWICE, runs="splits = [{Left=1, Right=1}]\nretries = 2")
    result = run_study(path, events.append)
    assert [run.outcome for run in result.runs] == ["failed", "failed", "finished"]
    assert result.runs[0].log_tail == ["Left: Left says hello", "Left: no licence"]
    started = [event.run.reason for event in events if event.kind == "run started"]
    assert started == ["split of the study, 1 of 1", "retry 1 of 2", "retry 2 of 2"]
    log = (tmp_path / "campaign" / "campaign.log").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in log] == [str(event) for event in events]


def test_a_full_disk_fails_the_run_and_not_the_campaign(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        case = write_case(tmp_path)
        (case / "large").write_bytes(b"x" * 500_000)
        path = write_study(tmp_path, runs="splits = [{Left=1, Right=1}]")
        with pytest.raises(CalibrationError, match=r"could not be prepared: .*No space left on device"):
            run_campaign(read_study(path), small / "campaign", report=quiet)
        (case / "large").unlink()
        result = run_campaign(read_study(path), small / "campaign", report=quiet)
        assert [run.outcome for run in result.runs] == ["outdated", "finished"]
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_runs_begin_in_the_developed_state_that_the_study_names(tmp_path: Path) -> None:
    case = write_case(tmp_path, SOLVER + 'assert (here / "fields" / "time").read_text() == "7.5"\n')
    (case / "fields").mkdir()
    (case / "fields" / "time").write_text("0")
    (tmp_path / "developed" / "fields").mkdir(parents=True)
    (tmp_path / "developed" / "fields" / "time").write_text("7.5")
    path = write_study(tmp_path, runs="splits = [{Left=1, Right=1}]", case='restart = "developed"')
    result = run_study(path)
    assert [run.outcome for run in result.runs] == ["finished"], result.runs
    assert (case / "fields" / "time").read_text() == "0"
    shutil.rmtree(tmp_path / "developed")
    with pytest.raises(StudyError, match=r"case\.restart: no such directory: .*developed"):
        read_study(path)
