"""Slurm: steps inside an allocation, a job for each run, or one allocation that runs them all."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from precice_lb.calibrate.launchers import Launcher
from precice_lb.calibrate.launchers.slurm_options import (
    holder_options,
    is_heterogeneous,
    job_header,
    resource_options,
    step_tokens,
    total_nodes,
)
from precice_lb.calibrate.plan import LauncherOptions, RunPlan, Task
from precice_lb.calibrate.processes import Outcome
from precice_lb.calibrate.schedulers import JOB_LOG
from precice_lb.calibrate.schedulers.slurm import (
    UNSET_OPTIONS,
    SlurmScheduler,
    cancel_steps,
    find_slurm,
    outside_of_jobs,
    without_slurm_options,
)
from precice_lb.exceptions import CalibrationError

_HOLD_POLL_SECONDS = 1.0


class SlurmLauncher(Launcher):
    """Runs submitted to Slurm from a login node.

    With ``allocation = "run"`` each run is a job, which goes on when the campaign ends and is waited for by the next
    one. With ``"campaign"`` one job that does nothing itself, large enough for every split, holds the nodes on which
    all runs are steps; a campaign started again finds it by its name. No job is put back into the queue by Slurm
    (``--no-requeue``): what a run has begun would be taken for a measurement.
    """

    keys = frozenset(
        {
            *("program", "arguments", "pin", "ranks_per_node", "mpi", "options", "allocation", "setup"),
            "submit_retry_seconds",
        }
    )
    many_nodes = True

    @classmethod
    def gives_threads(cls, options: LauncherOptions) -> bool:
        """Whether ranks get cores for their threads: they do, by ``--cpus-per-task``."""
        return True

    def __init__(self, options: LauncherOptions, directory: Path = Path()) -> None:
        super().__init__(options, directory)
        self.srun = find_slurm("srun", options.program)
        self.slurm = SlurmScheduler(options.submit_retry_seconds)
        self.scheduler = self.slurm if options.allocation == "run" else None
        if options.allocation == "campaign" and options.setup:
            raise CalibrationError(
                'launcher.setup: lines of a job script, but the job of allocation = "campaign" runs no participant: '
                "set up the shell in which the campaign is started"
            )
        #: The campaign's allocation.
        self.job: str | None = None
        self._largest: tuple[tuple[Task, ...], int] = ((), 0)

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the ``srun`` line of a participant."""
        name = None if self.scheduler is not None else plan.token or None
        return step_tokens(self.srun, plan.tasks, task, self.options, job=self.job, name=name)

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Leave out what a surrounding job has set."""
        return outside_of_jobs(inherited)

    def header(self, plan: RunPlan) -> str:
        """Return the ``#SBATCH`` lines of a run."""
        common = [
            f"--job-name={self.job_name(plan)}",
            f"--output={shlex.quote(str(plan.directory / JOB_LOG))}",
            "--no-requeue",
        ]
        limit = f"--time={math.ceil(plan.time_limit_seconds / 60)}"
        components = [[limit, *component] for component in resource_options(plan.tasks, self.options)]
        return f"{job_header(components, common)}\n{UNSET_OPTIONS}"

    def holder(self, largest: Sequence[Task], ranks: int) -> str:
        """Return the script of the job that holds an allocation for runs of up to ``ranks`` ranks, or cores."""
        common = [f"--job-name={self.label}", "--output=/dev/null", "--no-requeue"]
        return f"{job_header(holder_options(largest, ranks, self.options), common)}\nexec sleep infinity\n"

    def reserve(self, largest: Sequence[Task], ranks: int) -> None:
        """Note how large the allocation for all runs has to be."""
        self._largest = (tuple(largest), ranks)

    def run(self, plan: RunPlan, note: Callable[[str], None], job: str | None = None) -> Outcome:
        """Submit the run and wait for its end; or run it in the campaign's allocation."""
        if self.scheduler is not None:
            return super().run(plan, note, job)
        self._hold()
        note(self.job or "")
        outcome = super().run(plan, note)
        # Asked after a good end, too: srun's exit code is 0 after the loss of a node.
        states = self.slurm.poll(self.job or "")
        if states and not self.slurm.live.intersection(states):
            error = f"the allocation, Slurm's job {self.job}, ended as {', '.join(sorted(set(states)))}"
            return dataclasses.replace(outcome, error=error, participants=tuple(t.participant for t in plan.tasks))
        return outcome

    def stop(self, token: str, job: str | None) -> None:
        """Cancel a run's job, or its steps in the campaign's allocation."""
        if self.scheduler is not None:
            super().stop(token, job)
        else:
            for left in self.slurm.named(self.label):
                cancel_steps(left, token)

    def close(self) -> None:
        """Give the campaign's allocation back."""
        if self.scheduler is None:
            for left in self.slurm.named(self.label):
                self.slurm.cancel(left)
            self.job = None

    def _hold(self) -> None:
        """Have an allocation that runs: the one there is, one that an interrupted campaign left, or a new one."""
        live = self.slurm.live
        if self.job is not None and live.intersection(self.slurm.poll(self.job) or ()):
            return
        if left := self.slurm.named(self.label):
            self.job = left[-1]
        else:
            script = self.directory / f"{self.label}.sh"
            script.write_text(self.holder(*self._largest), encoding="utf-8")
            self.job = self.slurm.submit_script(script)
        while "RUNNING" not in (states := self.slurm.poll(self.job) or ["PENDING"]):
            if not live.intersection(states):
                raise CalibrationError(f"the allocation, Slurm's job {self.job}, ended as {', '.join(set(states))}")
            time.sleep(_HOLD_POLL_SECONDS)


class SrunLauncher(Launcher):
    """``srun`` steps inside the Slurm allocation in which the campaign itself runs.

    Start the campaign in the batch script, or in the shell of ``salloc``, not as a step: a step would hold cores that
    its own runs then wait for.
    """

    keys = frozenset({"program", "arguments", "pin", "ranks_per_node", "mpi"})
    many_nodes = True

    @classmethod
    def gives_threads(cls, options: LauncherOptions) -> bool:
        """Whether ranks get cores for their threads: they do, by ``--cpus-per-task``."""
        return True

    def __init__(self, options: LauncherOptions, directory: Path = Path()) -> None:
        super().__init__(options, directory)
        self.program = find_slurm("srun", options.program)
        self.job = os.environ.get("SLURM_JOB_ID", "")
        #: Whether the allocation has no components of several kinds.
        self.of_one = "SLURM_HET_SIZE" not in os.environ
        if not self.job:
            raise CalibrationError(
                "launcher.name: srun needs a Slurm allocation, and this process is in none: start in a batch "
                "script or under salloc, or use the launcher slurm, which makes jobs"
            )

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse a run that does not fit into the allocation."""
        if is_heterogeneous(tasks, of_one=self.of_one):
            components = int(os.environ.get("SLURM_HET_SIZE", "1"))
            if components < len(tasks):
                raise CalibrationError(
                    f"{len(tasks)} participants with options of their own need a heterogeneous allocation of as many "
                    f"components, this one has {components}"
                )
            return
        needed = total_nodes(tasks)
        nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "0"))
        if needed is not None and 0 < nodes < needed:
            raise CalibrationError(
                f"{needed} nodes are needed, since every participant gets nodes of its own; the allocation has {nodes}"
            )
        unit = "core" if any(task.threads > 1 for task in tasks) else "rank"
        self.check_ranks(sum(task.cores for task in tasks), unit)

    def check_ranks(self, ranks: int, unit: str = "rank") -> None:
        """Refuse more ranks, or cores for their threads, than the allocation has processors."""
        cpus = sum(cpus_of_nodes(os.environ.get("SLURM_JOB_CPUS_PER_NODE", "")))
        if 0 < cpus < ranks and "SLURM_HET_SIZE" not in os.environ:
            raise CalibrationError(f"{ranks} {unit}s need as many CPUs; the allocation has {cpus}")

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the ``srun`` line of a participant."""
        name = plan.token or None
        return step_tokens(self.program, plan.tasks, task, self.options, name=name, of_one=self.of_one)

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Leave out what ``srun`` would take for options."""
        return without_slurm_options(inherited)

    def stop(self, token: str, job: str | None) -> None:
        """Cancel the steps of this allocation that carry the token as their name."""
        cancel_steps(self.job, token)


def cpus_of_nodes(text: str) -> list[int]:
    """Read ``SLURM_JOB_CPUS_PER_NODE``, such as 8(x2),4: one number per node; none where it does not say."""
    parts = [re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part) for part in text.split(",")]
    return [int(part[1]) for part in parts if part for _ in range(int(part[2] or 1))]
