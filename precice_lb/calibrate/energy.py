"""What a campaign's jobs consumed, where Slurm's accounting reports it; nothing elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence

from precice_lb.calibrate.schedulers import Scheduler
from precice_lb.calibrate.schedulers.slurm import SlurmScheduler
from precice_lb.calibrate.state import CampaignState
from precice_lb.recommend.energy import MeasuredEnergy

__all__ = ["energy_of", "note_energy", "read_sacct"]

_COMMAND_SECONDS = 60.0
# What Slurm prints for a number that it does not have.
_NO_VALUES = {0, 2**32 - 2, 2**64 - 2}


def note_energy(state: CampaignState, scheduler: Scheduler | None, names: Sequence[str]) -> None:
    """Enter into the state what its jobs consumed, of those of Slurm's for which that is not known yet.

    ``names`` are the participants in the study's order, which components of a job have too.
    It is asked for when all runs have ended, since accounting comes later than the end of a job.
    """
    unknown = [run for run in state.finished if run.job is not None and not run.energy]
    if not unknown or not isinstance(scheduler, SlurmScheduler) or (sacct := shutil.which("sacct")) is None:
        return
    jobs = ",".join(str(run.job) for run in unknown)
    # Allocations alone: steps on one node would each count all of it.
    command = [sacct, "--noheader", "--parsable2", "--allocations", f"--jobs={jobs}"]
    command.append("--format=JobID,ConsumedEnergyRaw,ElapsedRaw")
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    found = read_sacct(done.stdout) if done.returncode == 0 else {}
    for run in unknown:
        run.energy = energy_of(found.get(str(run.job), []), {name: run.split[name] for name in names})


def read_sacct(text: str) -> dict[str, list[tuple[float, float]]]:
    """Read joules and seconds of each component, in their order, by job, from what sacct prints.

    Lines are ``4711|352100|61``, or ``4711+0|…`` and ``4711+1|…`` of a heterogeneous job. A job of which something is
    missing is left out.
    """
    found: dict[str, dict[int, tuple[float, float]]] = {}
    broken = set()
    for line in text.splitlines():
        name, *numbers = line.split("|")
        job, _, component = name.partition("+")
        if len(numbers) != 2 or not all(number.isdigit() for number in (*numbers, component or "0")):
            broken.add(job)
            continue
        joules, seconds = map(int, numbers)
        if joules in _NO_VALUES or seconds in _NO_VALUES:
            broken.add(job)
            continue
        found.setdefault(job, {})[int(component or 0)] = float(joules), float(seconds)
    return {job: [parts[at] for at in sorted(parts)] for job, parts in found.items() if job not in broken}


def energy_of(components: Sequence[tuple[float, float]], split: Mapping[str, int]) -> list[MeasuredEnergy]:
    """Say who consumed it: all participants of a job, or one in each component of a heterogeneous job."""
    if len(components) == 1:
        parts = [dict(split)]
    elif len(components) == len(split):
        parts = [{name: count} for name, count in split.items()]
    else:
        return []
    return [MeasuredEnergy(part, *each) for part, each in zip(parts, components, strict=True)]
