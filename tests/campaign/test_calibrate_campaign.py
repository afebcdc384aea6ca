"""Campaigns with real processes: what a run sees, failures, time limits, kills and resumption."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from calibrate_helpers import (
    CONFIGURATION,
    DRIVER,
    SOLVER,
    alive,
    quiet,
    run_of,
    run_study,
    runs_of,
    write_case,
    write_study,
)
from slurm_helpers import wait_until

from precice_lb.campaign import CampaignResult, Event, read_study, run_campaign
from precice_lb.case import read_configuration
from precice_lb.cli import main
from precice_lb.exceptions import CalibrationError

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]

TWO_SPLITS = "splits = [{Left=1, Right=3}, {Left=2, Right=1}]"
ONE_SPLIT = "splits = [{Left=1, Right=2}]"


@pytest.fixture(autouse=True)
def _none_is_left_running(tmp_path: Path) -> Iterator[None]:
    """Of the runs of a test's campaign; none of them may be left at its end."""
    yield
    left: list[str] = []
    # The state of one test is damaged.
    with contextlib.suppress(CalibrationError):
        left = alive(tmp_path / "campaign")
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert not left


def test_each_split_runs_in_a_patched_copy_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = write_case(tmp_path)
    for name in ("__pycache__", "precice-lb-store"):
        (case / name).mkdir()
    (tmp_path / "shared.txt").write_text("outside\n")
    (case / "link.txt").symlink_to("../shared.txt")
    (case / "inner-link.txt").symlink_to("solver.py")
    (case / "precice-config.xml").rename(tmp_path / "real.xml")
    (case / "precice-config.xml").symlink_to("../real.xml")
    for name, value in (("PRECICE_LB_AT_END", "recommend"), ("PRECICE_LB_RECORD", "0"), ("FROM_OUTSIDE", "kept")):
        monkeypatch.setenv(name, value)
    events: list[Event] = []
    extra = "[case.environment]\nGIVEN = 'x'\n[case.parameter]\nwidth = 0.5"
    path = write_study(tmp_path, runs=TWO_SPLITS, extra=extra)
    dry = ["calibrate", "--dry-run", str(path), "--directory", str(tmp_path / "campaign")]
    assert main(dry) == 0
    assert "at most 2 runs" in capsys.readouterr().out
    assert not (tmp_path / "campaign").exists()
    result = run_study(path, events.append)
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    assert main(dry) == 0
    assert "nothing is left to run" in capsys.readouterr().out
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before

    assert [(run.name, run.split) for run in result.finished] == [
        ("001-Left1-Right3", {"Left": 1, "Right": 3}), ("002-Left2-Right1", {"Left": 2, "Right": 1})
    ]  # fmt: skip
    assert [event.kind for event in events] == ["started"] + 2 * ["run started", "run finished"]
    assert str(events[1]) == "run 1 of 2: Left 1, Right 3 ranks (split of the study, 1 of 2)"

    first = tmp_path / "campaign" / "runs" / "001-Left1-Right3"
    assert result.stores[0] == first / "stores"
    assert (first / "Right.log").read_text() == "Right says hello\n" * 3
    seen = json.loads((first / "case" / "Left-seen.json").read_text())
    stated = {"PRECICE_LB_DIR": str(first / "stores"), "FROM_OUTSIDE": "kept", "GIVEN": "x", "OMP_NUM_THREADS": "1"}
    assert {key: seen.get(key) for key in stated} == stated
    assert not seen.keys() & {"PRECICE_LB_AT_END", "PRECICE_LB_RECORD"}
    assert json.loads(seen["PRECICE_LB_METADATA"]) == {
        "run": f"001-Left1-Right3-{result.runs[0].token}",
        "warmup_windows": 2,
        "degrees_of_freedom": {"Left": 1000.0},
        "parameters": {"width": 0.5},
    }

    patched = read_configuration(first / "case" / "precice-config.xml")
    assert patched.coupling_schemes[0].max_time_windows == 7
    assert patched.m2ns[0].exchange_directory == str(first / "exchange")
    assert "<!-- kept as it is -->" in patched.text
    assert (case / "precice-config.xml").read_text() == CONFIGURATION
    assert (first / "case" / "link.txt").read_text() == "outside\n"
    assert (first / "case" / "inner-link.txt").resolve() == first / "case" / "solver.py"
    assert not any((first / "case" / name).exists() for name in ("precice-lb-store", "__pycache__"))


CRASHES_ON_TWO = f"""{SOLVER}
if name == "Left" and size == "1":
    sys.exit("no convergence in sight")
if name == "Right":
    import time
    time.sleep(0.3 if "Right1" in os.environ["PRECICE_LB_DIR"] else 600)
"""


def test_a_failed_run_is_recorded_its_partner_stopped_and_the_campaign_goes_on(tmp_path: Path) -> None:
    path = write_study(tmp_path, solver=CRASHES_ON_TWO, runs=TWO_SPLITS)
    result = run_study(path)
    # Left's end ended the run: it neither took Right's 600 seconds nor came to its time limit.
    failed, finished = result.runs
    assert (failed.outcome, finished.outcome) == ("failed", "finished")
    assert failed.error == "Left ended with exit code 1"
    assert any("no convergence in sight" in line for line in failed.log_tail)
    assert result.finished == (finished,)
    run = tmp_path / "campaign" / failed.directory
    assert not list(run.glob("**/*.h5"))
    assert list(run.glob("**/*.h5.unfinished"))

    again = run_study(path)
    assert [run.outcome for run in again.runs] == ["failed", "finished", "failed"]
    assert again.runs[2].name == "003-Left1-Right3"


def test_a_solver_that_records_nothing_is_told_how_to(tmp_path: Path) -> None:
    path = write_study(tmp_path, solver="print('fine')\n", runs=ONE_SPLIT)
    with pytest.raises(CalibrationError, match=r"Left and Right ended well but recorded nothing: .*precice_lb run"):
        run_study(path)


STUBBORN = """\
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"waiting for ever\\n")
time.sleep(600)
"""


@pytest.mark.parametrize("program", ["mpiexec", pytest.param("mpiexec.openmpi", marks=pytest.mark.openmpi)])
def test_a_run_over_its_time_limit_is_stopped_to_the_last_rank(
    tmp_path: Path, program: str, mpiexec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = mpiexec if program == "mpiexec" else shutil.which(program) or pytest.skip(f"no {program} on this machine")
    launcher = f'oversubscribe = true\nprogram = "{program}"'
    path = write_study(tmp_path, solver=STUBBORN, runs=ONE_SPLIT, launcher=launcher)

    def monotonic() -> float:
        """The time limit is over when all ranks wait, however long they took to start."""
        said = "".join(log.read_text() for log in tmp_path.glob("campaign/runs/*/*.log"))
        return time.monotonic() + (1000.0 if said.count("waiting for ever") == 3 else 0.0)

    clock = SimpleNamespace(monotonic=monotonic, sleep=time.sleep)
    monkeypatch.setattr("precice_lb.campaign.processes.time", clock)
    with pytest.raises(CalibrationError, match=r"Left and Right still ran at the time limit of 300 s"):
        run_study(path)
    (run,) = runs_of(tmp_path / "campaign")
    assert run.outcome == "timeout"
    assert run.log_tail == ["Left: waiting for ever"] + ["Right: waiting for ever"] * 2


WAITS_ONCE = f"""{SOLVER}
import time
if here.parent.name.startswith("001"):
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_interrupted_campaign_resumes_with_a_new_run(tmp_path: Path, number: signal.Signals) -> None:
    path = write_study(tmp_path, solver=WAITS_ONCE, runs=ONE_SPLIT)
    directory = tmp_path / "campaign"
    campaign = subprocess.Popen([sys.executable, "-c", DRIVER, path, directory], stderr=subprocess.PIPE, text=True)
    first = directory / "runs" / "001-Left1-Right2"
    wait_until(lambda: len(list(first.glob("stores/00/*.h5"))) == 2, 300, "two stores")
    campaign.send_signal(number)
    _, output = campaign.communicate(timeout=300)
    if number is signal.SIGKILL:
        assert alive(directory), "a killed campaign cannot stop its run"
    else:
        assert output.splitlines()[-1].startswith("KeyboardInterrupt")
        assert alive(directory) == []
    result = run_campaign(read_study(path), directory, report=quiet)
    assert [run.outcome for run in result.runs] == ["interrupted", "finished"]
    assert result.runs[1].directory == "runs/002-Left1-Right2"
    assert list(first.glob("**/*.h5")) == []


def test_a_study_whose_job_may_still_run_may_not_change(tmp_path: Path) -> None:
    for job, resumes in (("7", False), (None, True)):
        state = CampaignResult({"runs.windows": 7}, [run_of(1, {}, "running", job=job)], directory=tmp_path)
        with pytest.raises(CalibrationError, match=r"another study \(runs\.windows changed\)"):
            state.take_identity({"runs.windows": 9}, resumes=resumes)
    state.take_identity({"runs.windows": 9}, resumes=False)
    assert state.study == {"runs.windows": 9}


def test_a_state_that_is_not_ours_or_damaged_is_refused(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    ours = '{"format": "precice-lb-campaign", "format_version": '
    (tmp_path / "campaign").mkdir()
    for content, expected in (
        ("{", r"cannot be read"),
        ("[]", r'expected "format"'),
        (f"{ours}99}}", r"expected format version 1, found 99"),
        (f"{ours}1}}", r"damaged state"),
        (f'{ours}1, "study": {{}}, "runs": [{{"number": "one"}}]}}', r"damaged state of a campaign: runs\[1\]"),
    ):
        (tmp_path / "campaign" / "campaign.json").write_text(content)
        with pytest.raises(CalibrationError, match=expected):
            run_study(path)
