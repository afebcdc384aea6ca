"""A Slurm of files and processes of this machine that fails as the real one does, for tests that need none.

Where there is a file of that name it is `away`, as a controller that does not answer, or `deaf`: it takes a job, but
does not say so, and starts it once it was asked for; `held` keeps jobs pending, no job up to the number in `no step`
starts a step, and a cancelled job is COMPLETING until its script has ended.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from slurm_helpers import wait_until

PROGRAM = r"""#!{python} -SE
import contextlib, fcntl, os, re, signal, subprocess, sys, time
from pathlib import Path

root, program, words = Path("{root}"), Path(sys.argv[0]).name, sys.argv[1:]
options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
LIVE = ("PENDING", "RUNNING", "COMPLETING")


@contextlib.contextmanager
def alone():
    # What one program looks at and changes, no other changes in between.
    with open(root / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def flag(name):
    # Holds as often as its file says, for ever where that is empty.
    path = root / name
    with alone():
        if not path.exists():
            return False
        left = path.read_text()
        if left:
            path.write_text(str(int(left) - 1)) if int(left) > 1 else path.unlink()
    return True


def step():
    at = next(at for at, word in enumerate(words) if not word.startswith("-"))
    job, last = os.environ["SLURM_JOB_ID"], root / "no step"
    if last.exists() and int(job) <= int(last.read_text()):
        sys.exit(f"srun: error: Unable to create step for job {job}: Job/step already completing or completed")
    for name in [name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_JOB_ID"]:
        del os.environ[name]
    os.environ["HYDRA_LAUNCHER"], ranks = "fork", ["{mpiexec}", "-rmk", "user", "-n", options["ntasks"]]
    command = ranks + words[at:] if int(options["ntasks"]) > 1 else words[at:]
    os.execvp(command[0], command)


def supervise(job, script, log):
    place, code = root / "jobs" / job, 0
    while ((root / "held").exists() or (place / "unasked").exists()) and state(place) == "PENDING":
        time.sleep(0.05)
    with alone():
        begins = state(place) == "PENDING"
        if begins:
            environment = dict(os.environ, SLURM_JOB_ID=job)
            with open(log, "ab") as output:
                streams = {"stdout": output, "stderr": output}
                process = subprocess.Popen(["bash", script], env=environment, start_new_session=True, **streams)
            (place / "pid").write_text(str(process.pid))
            become(place, "RUNNING")
    if begins:
        code = process.wait()
    with alone():
        if state(place) == "COMPLETING":
            become(place, (place / "ends").read_text())
        else:
            become(place, "FAILED" if code else "COMPLETED")


def state(place):
    return (place / "state").read_text()


def become(place, state):
    # Whoever asks meanwhile finds the one or the other.
    (place / f"state.{os.getpid()}").write_text(state)
    (place / f"state.{os.getpid()}").replace(place / "state")


if program == "srun":
    step()
if program == "supervise":
    sys.exit(supervise(*words))
if flag("away"):
    sys.exit(program + ": error: Unable to contact slurm controller (connect failure)")
if program == "sbatch":
    text = Path(words[-1]).read_text()
    said = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", text, re.M)) | options
    deaf = flag("deaf")
    with alone():
        job = str(1 + len(list((root / "jobs").iterdir())))
        place = root / "new"
        place.mkdir()
        (place / "name").write_text(said["job-name"])
        (place / "reason").write_text("None")
        if deaf:
            (place / "unasked").touch()
        become(place, "PENDING")
        place.rename(root / "jobs" / job)
    subprocess.Popen(
        [sys.executable, root / "bin" / "supervise", job, words[-1], said["output"].strip("'")],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )
    if deaf:
        sys.exit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
    print(job)
elif program == "squeue":
    places = sorted((root / "jobs").iterdir(), key=lambda path: int(path.name))
    if "jobs" in options:
        places = [path for path in places if path.name == options["jobs"]]
        if not places or (places[0] / "forgotten").exists():
            sys.exit("slurm_load_jobs error: Invalid job id specified")
    if "steps" in options:
        places = []
    for path in places:
        if ("states" in options or state(path) in LIVE) and options.get("name") in (None, (path / "name").read_text()):
            line = options["format"]
            for letter, text in zip("iTr", (path.name, state(path), (path / "reason").read_text())):
                line = line.replace("%" + letter, text)
            print(line)
        (path / "unasked").unlink(missing_ok=True)
elif program == "scancel":
    place = root / "jobs" / words[-1]
    with alone():
        if state(place) in LIVE:
            (place / "ends").write_text((root / "ends").read_text() if (root / "ends").exists() else "CANCELLED")
            (place / "reason").write_text("TimeLimit" if (place / "ends").read_text() == "TIMEOUT" else "None")
            become(place, "COMPLETING")
            if (place / "pid").exists():
                # Its last process may have ended just now.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int((place / "pid").read_text()), signal.SIGTERM)
"""


class FakeSlurm:
    """The state of a fake Slurm below a directory."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        (root / "jobs").mkdir(parents=True)
        (root / "bin").mkdir()
        program = root / "bin" / "srun"
        text = PROGRAM.replace("{python}", sys.executable).replace("{root}", str(root))
        program.write_text(text.replace("{mpiexec}", str(Path(sys.executable).parent / "mpiexec")))
        program.chmod(0o755)
        for name in ("sbatch", "squeue", "scancel", "scontrol", "supervise"):
            shutil.copy2(program, root / "bin" / name)
        monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def set(self, flag: str, text: str = "") -> None:
        """Let one of the failures hold, so often."""
        (self.root / flag).write_text(text)

    def answer(self, program: str, text: str) -> None:
        """Let one of the programs do what a shell's lines say."""
        (self.root / "bin" / program).write_text(f"#!/bin/sh\n{text}\n")

    def states(self) -> list[str]:
        """States of all jobs, in the order of their submission."""
        places = sorted((self.root / "jobs").iterdir(), key=lambda path: int(path.name))
        return [(place / "state").read_text() for place in places]

    def cancel(self, job: str, ends: str = "CANCELLED") -> None:
        """End a job as `scancel` does, or a time limit, and wait until it is gone."""
        self.set("ends", ends)
        os.system(f"scancel {job}")
        wait_until(lambda: self.states()[int(job) - 1] == ends)

    def forget(self, job: str) -> None:
        """Let a job be one that ended long ago."""
        (self.root / "jobs" / job / "forgotten").touch()


def hasty_fake_slurm(root: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Return such a Slurm in a new directory, which campaigns ask again at once."""
    monkeypatch.setattr("precice_lb.campaign.schedulers._FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr("precice_lb.campaign.schedulers._SETTLE_SECONDS", 0.5)
    return FakeSlurm(root, monkeypatch)
