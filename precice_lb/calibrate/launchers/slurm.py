"""Runs submitted to Slurm: a job for each, or one allocation that runs them all."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from precice_lb.calibrate.launchers.base import Launcher, launcher
from precice_lb.calibrate.launchers.jobs import JOB_LOG, job_lines, wait_for_job
from precice_lb.calibrate.launchers.plan import LauncherOptions, RunPlan, Task, nodes_of
from precice_lb.calibrate.launchers.slurm_client import (
    LIVE_STATES,
    UNSET_OPTIONS,
    cancel_job,
    cancel_steps,
    find_slurm,
    job_states,
    jobs_named,
    outside_of_jobs,
    submit,
)
from precice_lb.calibrate.launchers.srun import is_heterogeneous, step_tokens
from precice_lb.calibrate.processes import Outcome
from precice_lb.exceptions import CalibrationError

__all__ = ["SlurmLauncher", "job_header", "resource_options"]

_PLACEMENT = re.compile(r"^(-[Nn]|--nodes\b|--ntasks\b|--ntasks-per-node\b)")
_SCRIPT = "job.sh"
_HOLD_POLL_SECONDS = 1.0


def resource_options(tasks: Sequence[Task], options: LauncherOptions) -> list[list[str]]:
    """Return the options that ask for a run's nodes and tasks, one list per component of the job.

    Where the study's own options name nodes or tasks, nothing is added to them.
    """
    if not is_heterogeneous(tasks):
        return [_placed(tasks, options.options, options)]
    return [_placed([task], (*options.options, *task.options), options) for task in tasks]


def _placed(tasks: Sequence[Task], own: Sequence[str], options: LauncherOptions) -> list[str]:
    if any(_PLACEMENT.match(option) for option in own):
        return list(own)
    nodes = [nodes_of(task, options) for task in tasks]
    if None in nodes:
        return [*own, f"--ntasks={sum(task.ranks for task in tasks)}", "--cpus-per-task=1"]
    per_node = max(min(task.ranks_per_node or options.ranks_per_node or 1, task.ranks) for task in tasks)
    return [
        *own,
        f"--nodes={sum(count or 0 for count in nodes)}",
        f"--ntasks-per-node={per_node}",
        "--cpus-per-task=1",
    ]


def job_header(components: Sequence[Sequence[str]], common: Sequence[str]) -> str:
    """Return the ``#SBATCH`` lines: ``common`` for the job, then the components of a heterogeneous one."""
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in common)]
    for index, component in enumerate(components):
        lines += ["#SBATCH hetjob"] if index else []
        lines += [f"#SBATCH {option}" for option in component]
    return "\n".join(lines) + "\n"


@launcher("slurm")
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

    def __init__(self, options: LauncherOptions) -> None:
        super().__init__(options)
        self.srun = find_slurm("srun", options.program)
        self.sbatch = find_slurm("sbatch")
        for name in ("squeue", "scancel"):
            find_slurm(name)
        if options.allocation == "campaign" and options.setup:
            raise CalibrationError(
                'launcher.setup: lines of a job script, but the job of allocation = "campaign" runs no participant: '
                "set up the shell in which the campaign is started"
            )
        self.job: str | None = None
        self._largest: tuple[tuple[Task, ...], int] = ((), 0)

    def commands(self, plan: RunPlan) -> dict[str, list[str]]:
        """Return the ``srun`` line of each participant."""
        if self.options.allocation == "run":
            return step_tokens(self.srun, plan.tasks, self.options)
        return step_tokens(self.srun, plan.tasks, self.options, job=self.job, name=plan.token or None)

    def clean(self, environment: dict[str, str]) -> dict[str, str]:
        """Leave out what a surrounding job has set."""
        return outside_of_jobs(environment)

    def script(self, plan: RunPlan) -> str:
        """Return the job script of a run."""
        common = [
            f"--job-name={self._name(plan)}",
            f"--output={shlex.quote(str(plan.directory / JOB_LOG))}",
            "--no-requeue",
        ]
        limit = f"--time={math.ceil(plan.time_limit_seconds / 60)}"
        components = [[limit, *component] for component in resource_options(plan.tasks, self.options)]
        header = job_header(components, common)
        return f"{header}\n{UNSET_OPTIONS}{job_lines(plan, self.commands(plan), self.options.setup)}"

    def holder(self, largest: Sequence[Task], ranks: int) -> str:
        """Return the script of the job that holds an allocation for runs of up to ``ranks`` ranks."""
        common = [f"--job-name={self.options.label}", "--output=/dev/null", "--no-requeue"]
        components = resource_options(largest, self.options)
        if not is_heterogeneous(largest) and not any(_PLACEMENT.match(option) for option in self.options.options):
            components = [[*self.options.options, *_largest_size(largest, ranks, self.options)]]
        return f"{job_header(components, common)}\nexec sleep infinity\n"

    def files(self, plan: RunPlan) -> dict[Path, str]:
        """Return the job script, where each run is a job."""
        return {plan.directory / _SCRIPT: self.script(plan)} if self.options.allocation == "run" else {}

    def submission(self, script: Path) -> list[str]:
        """Return the ``sbatch`` line for a script."""
        return [self.sbatch, "--parsable", str(script)]

    def reserve(self, largest: Sequence[Task], ranks: int) -> None:
        """Note how large the allocation for all runs has to be."""
        self._largest = (tuple(largest), ranks)

    def run(self, plan: RunPlan, note: Callable[[str], None]) -> Outcome:
        """Submit the run and wait for its end; or run it in the campaign's allocation."""
        if self.options.allocation == "campaign":
            return self._run_steps(plan, note)
        self.write(plan)
        try:
            job = self._submit(plan.directory / _SCRIPT)
            note(job)
        except KeyboardInterrupt:
            if (left := self.find(plan)) is not None:
                cancel_job(left)
            raise
        return self._wait(plan, job)

    @property
    def resumes(self) -> bool:
        """Whether each run is a job."""
        return self.options.allocation == "run"

    def find(self, plan: RunPlan) -> str | None:
        """Return the number of a run's job that waits or runs."""
        return next(iter(jobs_named(self._name(plan))), None)

    def resume(self, plan: RunPlan, job: str) -> Outcome:
        """Wait for the job of a campaign that has ended."""
        return self._wait(plan, job)

    def stop(self, token: str, job: str | None) -> None:
        """Cancel a run's job, or its steps in the campaign's allocation."""
        if self.options.allocation == "run":
            if job is not None:
                cancel_job(job)
        else:
            for left in jobs_named(self.options.label):
                cancel_steps(left, token)

    def close(self) -> None:
        """Give the campaign's allocation back."""
        if self.options.allocation == "campaign":
            for left in jobs_named(self.options.label):
                cancel_job(left)
            self.job = None

    def _name(self, plan: RunPlan) -> str:
        return f"{self.options.label}-{plan.name}"[:120]

    def _submit(self, script: Path) -> str:
        said = submit(self.submission(script), outside_of_jobs(os.environ), self.options.submit_retry_seconds)
        # "number" or "number;cluster", behind what the site's plugins may say.
        job = (said.strip().splitlines() or [""])[-1].partition(";")[0]
        if not job.isdigit():
            raise CalibrationError(f"{self.sbatch} --parsable did not answer with a job's number but {said.strip()!r}")
        return job

    def _wait(self, plan: RunPlan, job: str) -> Outcome:
        try:
            return wait_for_job(
                plan,
                lambda: job_states(job),
                live=LIVE_STATES,
                cancel=lambda: cancel_job(job),
                name=f"Slurm's job {job}",
            )
        except KeyboardInterrupt:
            cancel_job(job)
            raise

    def _run_steps(self, plan: RunPlan, note: Callable[[str], None]) -> Outcome:
        self._hold()
        note(self.job or "")
        try:
            outcome = super().run(plan, note)
        except BaseException:
            self.stop(plan.token, None)
            raise
        if outcome.error is not None:
            self.stop(plan.token, None)
        # Asked after a good end, too: srun's exit code is 0 after the loss of a node.
        states = job_states(self.job or "")
        if states and not LIVE_STATES.intersection(states):
            error = f"the allocation, Slurm's job {self.job}, ended as {', '.join(sorted(set(states)))}"
            return dataclasses.replace(outcome, error=error, participants=tuple(t.participant for t in plan.tasks))
        return outcome

    def _hold(self) -> None:
        """Have an allocation that runs: the one there is, one that an interrupted campaign left, or a new one."""
        if self.job is not None and LIVE_STATES.intersection(job_states(self.job) or ()):
            return
        if left := jobs_named(self.options.label):
            self.job = left[-1]
        else:
            script = self.options.directory / f"{self.options.label}.sh"
            script.write_text(self.holder(*self._largest), encoding="utf-8")
            self.job = self._submit(script)
        while "RUNNING" not in (states := job_states(self.job) or ["PENDING"]):
            if not LIVE_STATES.intersection(states):
                raise CalibrationError(f"the allocation, Slurm's job {self.job}, ended as {', '.join(set(states))}")
            time.sleep(_HOLD_POLL_SECONDS)


def _largest_size(largest: Sequence[Task], ranks: int, options: LauncherOptions) -> list[str]:
    """Return the size of an allocation in which every split of ``ranks`` ranks finds its place."""
    per_node = [task.ranks_per_node or options.ranks_per_node for task in largest]
    if None in per_node:
        return [f"--ntasks={ranks}", "--cpus-per-task=1"]
    # Every participant but one may leave a node partly empty.
    nodes = -(-ranks // min(count or 1 for count in per_node)) + len(largest) - 1
    nodes = min(nodes, sum(nodes_of(task, options) or 0 for task in largest))
    return [f"--nodes={nodes}", f"--ntasks-per-node={max(count or 1 for count in per_node)}", "--cpus-per-task=1"]
