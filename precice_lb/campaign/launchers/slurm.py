"""Slurm: steps inside an allocation, or a job for each run; patient with a controller that is busy or away."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from precice_lb.campaign.launchers import ProgramLauncher
from precice_lb.campaign.plan import RunPlan, Task
from precice_lb.campaign.processes import Outcome
from precice_lb.campaign.schedulers import JOB_LOG, JOB_SCRIPT, SlurmScheduler, find_slurm, job_lines, scontrol
from precice_lb.case.tables import Options, Text
from precice_lb.exceptions import CalibrationError

# srun takes these for options of its own, although they say how the job's script was placed.
_OPTION_VARIABLES = (
    "SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_SOCKET SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_NPROCS SLURM_NNODES "
    "SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_DISTRIBUTION SLURM_HINT SLURM_CPU_BIND "
    "SLURM_EXACT SLURM_OVERLAP SLURM_EXCLUSIVE SLURM_THREADS_PER_CORE"
)
UNSET_OPTIONS = f"unset {_OPTION_VARIABLES}\n"
"""The line of a job script without which its steps would inherit the options of the script."""

# Of a participant alone; the only ones that a step takes, too.
GPU_OPTIONS = ("--gres", "--gpus", "-G")
# Seconds that a step may wait for cores before srun gives up: longer than a node needs to be rid of the run before.
_LONGEST_WAIT = 300
_OPTION = re.compile(r"--(?P<name>[\w-]+)(?:(?:=|\s+)(?P<value>.*))?|-(?P<letter>\w)\s*(?P<rest>.*)", re.DOTALL)
_LETTERS = {"B": "extra-node-info", "c": "cpus-per-task", "G": "gpus", "I": "immediate", "m": "distribution"}
_LETTERS |= {"N": "nodes", "n": "ntasks", "O": "overcommit", "t": "time"}
# Options that Slurm refuses beside another one.
_INSTEAD = {"hint": {"threads-per-core", "cpu-bind", "ntasks-per-core"}, "mem-per-cpu": {"mem"}, "mem-per-gpu": {"mem"}}
# Options with which ranks may come to share a core.
_CROWDING = re.compile(r"overcommit=.*|(?:threads|ntasks)-per-core=(?!1$).*|hint=multithread")


def split_options(text: str) -> list[str]:
    """Return the options that stand in one text: ``--time=10 -N 2`` has two."""
    return re.split(r"\s+(?=--?[A-Za-z])", text)


def named(options: Sequence[str]) -> dict[str, str]:
    """Return the values of options by their whole names; of two alike the last counts, as it does for Slurm."""
    parts = (part for text in options for part in split_options(text))
    return {
        match["name"] or _LETTERS.get(match["letter"], match["letter"]): match["value"] or match["rest"] or ""
        for match in filter(None, map(_OPTION.fullmatch, parts))
    }


def without_stated(ours: Sequence[str], users: Sequence[str]) -> list[str]:
    """Return those of our options in whose place the user's say nothing."""
    names = set().union(*({name} | _INSTEAD.get(name, set()) for name in named(users)))
    return [option for option in ours if names.isdisjoint(named([option]))]


def resource_options(tasks: Sequence[Task], common: Sequence[str]) -> list[list[str]]:
    """Return the options that ask for a run's nodes and tasks, one list per component of the job.

    To the study's own, ``common`` to all, the job's size is added.
    """
    if not any(task.options for task in tasks):
        return [_sized(tasks, common)]
    return [_sized([task], (*without_stated(common, task.options), *task.options)) for task in tasks]


def _sized(tasks: Sequence[Task], users: Sequence[str]) -> list[str]:
    """Add the size of a job to the user's options, which say nothing of it.

    Cores are asked for in blocks that Slurm keeps together on a node, where a rank's threads find them. On nodes of
    their own, participants have all cores: where a block does not divide these, none is needed.
    """
    block, nodes = max(task.threads for task in tasks), total_nodes(tasks)
    if nodes is None:
        # A block may have cores left that are too few for another rank's threads.
        blocks = sum(-(-task.ranks // (block // task.threads)) for task in tasks)
        size = [f"--ntasks={blocks}", f"--cpus-per-task={block}"]
    else:
        on_node = max(task.ranks_on_node * task.threads for task in tasks)
        block = 1 if on_node % block else block
        size = [f"--nodes={nodes}", f"--ntasks-per-node={on_node // block}", f"--cpus-per-task={block}"]
    for name, value in named(users).items():
        if name in named(size) or _CROWDING.fullmatch(f"{name}={value}"):
            option = f"--{name}={value}" if value else f"--{name}"
            raise CalibrationError(f"options of the job: found {option}, which follows from the split: leave it out")
    return [*users, *size]


def job_header(name: str, output: str, components: Sequence[Sequence[str]]) -> str:
    """Return the ``#SBATCH`` lines of a job, which may have several components."""
    options = [f"--job-name={name}", f"--output={shlex.quote(output)}", "--no-requeue"]
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options)]
    for index, component in enumerate(components):
        lines += ["#SBATCH hetjob"] if index else []
        # Else a hardware thread counts as a core.
        lines += [f"#SBATCH {option}" for option in (*component, *without_stated(["--threads-per-core=1"], component))]
    if broken := next((line for line in lines if not line.isprintable()), None):
        raise CalibrationError(f"expected one line for each option of the job, found {broken!r}")
    return "\n".join(lines) + "\n"


def total_nodes(tasks: Sequence[Task]) -> int | None:
    """Return how many nodes a run takes, None where participants may share nodes."""
    nodes = [task.nodes for task in tasks]
    return None if None in nodes else sum(count or 0 for count in nodes)


@dataclass(kw_only=True)
class StepLauncher(ProgramLauncher):
    """Steps of ``srun``, in an allocation of Slurm.

    Parameters
    ----------
    program : str, optional
        The ``srun`` to use. By default the one on ``PATH``.
    mpi : str, optional
        What ``srun --mpi`` gets, such as ``"pmi2"`` (MPICH) or ``"pmix"`` (Open MPI).
    """

    mpi: Text | None = None
    srun = "srun"
    many_nodes = gives_threads = True

    def locate(self) -> None:
        """Look for ``srun``."""
        self.srun = find_slurm("srun", self.program)

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the ``srun`` line of a participant, such that no core gets two ranks and every thread has one.

        With ranks per node, each participant has nodes of its own, counted from the allocation's first
        (``--relative``), and the ranks fill them one after the other (``--distribution=plane``). Otherwise ``--exact``
        makes Slurm give each step just the cores it asks for: without it the first step has whole nodes, and the second
        waits for it to end. So it would without a range of nodes, since a step takes a core on every node of its job,
        and without ``--mem=0``, since it takes all memory. ``--overlap``, which lets steps share cores, is never used.
        A step that waits all the same ends by itself (``--immediate``), so that its partners do not wait for it until
        the time limit. Where any participant has options of its own, each is a component of a heterogeneous job; in an
        allocation, which is of one kind, options for GPUs are the step's alone.
        """
        tasks, place, nodes = plan.tasks, plan.tasks.index(task), task.nodes
        has_groups = isinstance(self, SlurmLauncher) and any(one.options for one in tasks)
        most_threads = max(one.threads for one in tasks)
        options = {
            # By which a step is found again; a job is found by its own name.
            f"--job-name={plan.token}": plan.token and self.scheduler is None,
            f"--het-group={place}": has_groups,
            f"--nodes={nodes or f'1-{task.ranks}'}": True,
            # Spread over all nodes, ranks of one core leave none of them enough for a rank with threads.
            "--distribution=block:*:*,Pack": nodes is None and most_threads > 1,
            f"--relative={total_nodes(tasks[:place])}": total_nodes(tasks) is not None and not has_groups,
            f"--ntasks={task.ranks}": True,
            f"--distribution=plane={task.ranks_on_node}": (nodes or 1) > 1,
            # With --exact, a step gets no GPU that it does not ask for.
            **{option: option.startswith(GPU_OPTIONS) for option in task.options},
            f"--cpus-per-task={task.threads}": True,
            **dict.fromkeys(("--threads-per-core=1", "--mem=0", "--exact", "--kill-on-bad-exit=1"), True),
            **{"--export=ALL": True, f"--immediate={_LONGEST_WAIT}": True, "--cpu-bind=cores": self.pin},
            f"--mpi={self.mpi}": self.mpi is not None,
        }
        line = [option for option, is_used in options.items() if is_used]
        return [self.srun, *without_stated(line, self.arguments), *self.arguments, *task.command]


@dataclass(kw_only=True)
class SlurmLauncher(StepLauncher):
    """Runs submitted to Slurm from a login node, a job each, which goes on when the campaign ends.

    No job is put back into the queue by Slurm (``--no-requeue``): what a run has begun would be taken for a
    measurement.

    Parameters
    ----------
    options : sequence of str
        Options of the job, one each: ``["--partition=main", "--account=a1"]``. A ``--time`` among them is for
        calibration runs alone; the time limit of production follows from its time windows.
    setup : sequence of str
        Lines of the job script before the participants, such as ``"module load openmpi"``.
    """

    options: Options = ()
    setup: tuple[Text, ...] = ()

    def locate(self) -> None:
        """Look for Slurm's programs."""
        super().locate()
        # Whoever is to be told may come later.
        self.slurm = self.scheduler = SlurmScheduler(self.directory, lambda text: self.warn(text))

    def files(self, plan: RunPlan) -> dict[Path, str]:
        """Return the job script of a run."""
        limit = f"--time={math.ceil(plan.time_limit_seconds / 60)}"
        components = [[limit, *component] for component in resource_options(plan.tasks, self.options)]
        header = job_header(self.slurm.job_name(plan), str(plan.directory / JOB_LOG), components)
        lines = job_lines(plan, self.starts(plan), self.setup)
        return {plan.directory / JOB_SCRIPT: f"{header}\n{UNSET_OPTIONS}{lines}"}

    def run(self, plan: RunPlan, note: Callable[[str], None], job: str | None = None) -> Outcome:
        """Submit a run, unless it is a job already, and wait for its end; an interrupt cancels it."""
        try:
            if job is None:
                ((script, text),) = self.files(plan).items()
                script.write_text(text, encoding="utf-8")
                job = self.slurm.submit(script)
                note(job)
            return self.slurm.follow(plan, job)
        except KeyboardInterrupt:
            # It may have come between the submission and its answer.
            if (left := job or self.slurm.find(self.slurm.job_name(plan))) is not None:
                self.slurm.cancel(left)
            raise

    def stop(self, token: str, job: str | None) -> None:
        """Cancel the job of an interrupted campaign."""
        if job:
            self.slurm.cancel(job)

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse options of the job that say its size."""
        resource_options(tasks, self.options)


@dataclass(kw_only=True)
class SrunLauncher(StepLauncher):
    """``srun`` steps inside the Slurm allocation in which the campaign itself runs.

    Start the campaign in the batch script, or in the shell of ``salloc``, not as a step: a step would hold cores that
    its own runs then wait for. The allocation has one component.
    """

    def locate(self) -> None:
        """Look for ``srun``, and for the allocation."""
        super().locate()
        self.surrounding = os.environ.get("SLURM_JOB_ID", "")
        if not self.surrounding or "SLURM_HET_SIZE" in os.environ:
            kind = "a heterogeneous one" if self.surrounding else "none"
            raise CalibrationError(
                f"launcher.name: srun needs a Slurm allocation of one component, and this process is in {kind}: start "
                "in a batch script or under salloc, or use the launcher slurm"
            )

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse a run that does not fit into the allocation."""
        if any(not option.startswith(GPU_OPTIONS) for task in tasks for option in task.options):
            raise CalibrationError("expected options for GPUs alone in an allocation, found others: use launcher slurm")
        needed, nodes = total_nodes(tasks) or 0, int(os.environ.get("SLURM_JOB_NUM_NODES", "0"))
        if 0 < nodes < needed:
            raise CalibrationError(f"{needed} nodes are needed, as participants share none; the allocation has {nodes}")
        super().check(tasks)

    def room(self) -> int | None:
        """Return the cores of the allocation, where it says them."""
        return sum(allocated_cores()) or None

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Leave out what ``srun`` would take for options."""
        return {name: value for name, value in inherited.items() if name not in _OPTION_VARIABLES.split()}

    def stop(self, token: str, job: str | None) -> None:
        """Cancel the steps of this allocation that carry the token as their name."""
        SlurmScheduler(self.directory, self.warn).cancel_steps(self.surrounding, token)


def allocated_cores() -> list[int]:
    """Return the cores of each node of the surrounding allocation, whose CPUs may be their hardware threads."""
    # Such as 8(x2),4.
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    cpus = [int(count) for count, times in counts for _ in range(int(times or 1))]
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    nodes = scontrol("show", "nodes", listed, "--oneliner").splitlines() if listed else []
    sizes = [dict(re.findall(r"\b(Sockets|CoresPerSocket|CPUTot)=(\d+)", node)) for node in nodes]
    if len(sizes) != len(cpus) or any(len(size) < 3 for size in sizes):
        return cpus
    of_cores = os.environ.get("SLURM_HINT") == "nomultithread" or os.environ.get("SLURM_THREADS_PER_CORE") == "1"
    cores = [int(size["Sockets"]) * int(size["CoresPerSocket"]) for size in sizes]
    threads = [1 if of_cores else max(int(size["CPUTot"]) // n, 1) for size, n in zip(sizes, cores, strict=True)]
    return [min(count // t, n) for count, t, n in zip(cpus, threads, cores, strict=True)]
