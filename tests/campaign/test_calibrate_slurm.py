"""Campaigns on a real Slurm: steps in an allocation, a job per run; and what goes wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from calibrate_helpers import (
    COUPLED,
    DRIVER,
    SOLVER,
    changed,
    recording,
    run_study,
    state_of,
    write_study,
)
from clock_helpers import study_environment
from slurm_helpers import ask, submit, wait_until

from precice_lb.campaign import Event, read_study, run_campaign
from precice_lb.cli import main
from precice_lb.dataset import load_runs

pytestmark = [pytest.mark.mpi, pytest.mark.slurm, pytest.mark.usefixtures("slurm")]

ONE_SPLIT = "splits = [{Left=2, Right=1}]"
# Says on which virtual node each rank ran, and takes a second when asked to wait.
PLACED = SOLVER + "os.write(1, f\"node {os.environ['SLURMD_NODENAME']}\\n\".encode())\n"
WAITS_FIRST = f"""{SOLVER}
import time
if here.parent.name.startswith("001"):
    time.sleep(float(os.environ["FIRST_SECONDS"]))
"""


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    # Comes first: jobs that have ended still count for a while.
    full = ask("sbatch", "--parsable", "--hold", "--array=0-18", "--output=/dev/null", "--wrap=true").strip()
    campaign = ThreadPoolExecutor().submit(run_study, write_slurm_study(tmp_path))
    time.sleep(2.0)
    assert set(ask("squeue", "--noheader", f"--jobs={full}", "--format=%T").split()) == {"PENDING"}
    assert not list(tmp_path.glob("campaign/runs/*/exits"))
    ask("scancel", full)
    assert [run.outcome for run in campaign.result(300).runs] == ["finished"]


def test_steps_in_the_allocation_of_the_campaign(tmp_path: Path, mpi: str) -> None:
    launcher = f'name = "srun"\nmpi = "{mpi}"\nranks_per_node = 2'
    runs = 'splits = [{Left=2, Right=1}, {Left=1, Right=2}]\ndirectory = "campaign"'
    study = write_slurm_study(tmp_path, launcher, solver=COUPLED, runs=runs, extra=study_environment())
    recording(study, Left=0.06, Right=0.04)
    script = tmp_path / "job.sh"
    # What the script says of its own placing must not reach the steps.
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --ntasks-per-core=1\n"
        f"#SBATCH --output={tmp_path}/job.log\n{sys.executable} -m precice_lb calibrate {study}\n"
    )
    submit(script)
    split = json.loads((tmp_path / "campaign" / "recommendation.json").read_text())["split"]
    assert sum(split.values()) <= 4
    measured = state_of(tmp_path / "campaign").measurements()
    for name, work in (("Left", 0.06), ("Right", 0.04)):
        rows = sorted(measured.samples[name][:, :2].tolist())
        np.testing.assert_allclose(rows, [[1, work], [2, work / 2]], atol=1e-3)


KINDS = """
kinds = [
  { name = "cpu", nodes = 3, cores_per_node = 1, options = ["--constraint=cpu"] },
  { name = "gpu", nodes = 1, cores_per_node = 8, gpus_per_node = 2, options = ["--constraint=gpu"] },
]
"""
VERSIONS = """\
versions = [
  { name = "cpu", command = "python solver.py Right" },
  { name = "gpu", command = "python solver.py Right", gpus_per_rank = 1, kind = "gpu" },
]
"""


def test_versions_run_on_their_kinds_of_nodes(tmp_path: Path) -> None:
    launcher = 'name = "slurm"\noptions = ["--partition=main"]'
    path = write_slurm_study(tmp_path, launcher, solver=PLACED, runs="splits = [{Left=1, Right=2}]", machine=KINDS)
    path.write_text(path.read_text().replace('command = "python solver.py Right"', VERSIONS))
    result = run_study(path)
    assert [run.outcome for run in result.runs] == ["finished", "finished"], [run.error for run in result.runs]
    where = {}
    for run in result.runs:
        said = (tmp_path / "campaign" / run.directory / "Right.log").read_text().splitlines()
        where[run.versions["Right"]] = sorted(line for line in said if line.startswith("node"))
    # One rank on each of the nodes with one core, and both on the node with GPUs.
    assert len(set(where["cpu"])) == 2
    assert "node n3" not in where["cpu"]
    assert where["gpu"] == ["node n3", "node n3"]
    script = (tmp_path / "campaign" / result.runs[1].directory / "job.sh").read_text()
    assert "#SBATCH --constraint=gpu\n#SBATCH --gpus-per-task=1\n#SBATCH --nodes=1\n" in script
    seen = json.loads((tmp_path / "campaign" / result.runs[1].directory / "case" / "Right-seen.json").read_text())
    assert (seen["PRECICE_LB_VERSION"], seen["SLURM_STEP_NUM_TASKS"]) == ("gpu", "2")


def write_slurm_study(
    directory: Path, launcher: str = 'name = "slurm"', *, runs: str = ONE_SPLIT, **tables: str
) -> Path:
    """Write a study of `write_case`'s case for Slurm."""
    return write_study(directory, runs=runs, launcher=launcher, case='network = "lo"', **tables)


def test_what_a_killed_campaign_submitted_is_used_by_the_next(tmp_path: Path) -> None:
    path = write_slurm_study(tmp_path, solver=WAITS_FIRST, extra="[case.environment]\nFIRST_SECONDS = '2'")
    directory = tmp_path / "campaign"
    campaign = subprocess.Popen([sys.executable, "-c", DRIVER, str(path), str(directory)], stderr=subprocess.DEVNULL)
    run = directory / "runs" / "001-Left2-Right1"
    try:
        wait_until(lambda: list(run.glob("stores/00/*.h5")), 60, "a run that has begun")
    finally:
        campaign.kill()
        campaign.wait()
    events: list[Event] = []
    result = run_campaign(read_study(path), directory, report=events.append)
    assert [record.outcome for record in result.runs] == ["finished"]
    assert events[0].kind == "resumed"
    assert str(events[0]) == (f"waiting for job {result.runs[0].job} of the interrupted campaign: Left 2, Right 1 rank")


def test_printed_command_submits_the_recommended_split(
    shell: str, tmp_path: Path, mpi: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "Größe 1"
    directory.mkdir()
    launcher = f'name = "slurm"\nmpi = "{mpi}"\noptions = ["--time=3"]'
    splits = "splits = [{Left=1, Right=2}, {Left=2, Right=1}]"
    path = write_slurm_study(directory, launcher, solver=COUPLED, runs=splits, extra=study_environment())
    recording(path, Left=0.06, Right=0.04)
    # 8 windows last less than a minute at any split.
    changed(
        directory / "case" / "precice-config.xml", ('<max-time-windows value="1000"', '<max-time-windows value="8"')
    )
    monkeypatch.chdir(directory)
    assert main(["calibrate", path.name]) == 0
    output = capsys.readouterr().out
    (command,) = re.findall(r"^start it: (.*)$", output, flags=re.MULTILINE)
    assert command.startswith("sbatch ")

    submitted = subprocess.run([shell, "-c", command], capture_output=True, text=True, check=True, timeout=60)

    job = re.fullmatch(r"Submitted batch job (\d+)\n", submitted.stdout)
    assert job is not None
    wait_until(lambda: "JobState=COMPLETED" in ask("scontrol", "show", "job", job[1]), what="the end of the job")
    # From 8 windows and a fifth more; calibration runs had three minutes.
    script = (directory / "study-campaign" / "launch" / "job.sbatch").read_text()
    assert re.findall(r"#SBATCH --time=(.*)", script) == ["1"]
    assert "# Time limit: 8 time windows of at most " in script
    split = json.loads((directory / "study-campaign" / "recommendation.json").read_text())["split"]
    (run,) = load_runs([directory / "case"])
    assert {name: part.ranks for name, part in run.participants.items()} == split
