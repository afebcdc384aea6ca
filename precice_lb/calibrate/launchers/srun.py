"""``srun``: the steps of a run inside a Slurm allocation, on nodes or cores of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from precice_lb.calibrate.launchers.base import Launcher
from precice_lb.calibrate.plan import LauncherOptions, RunPlan, Task
from precice_lb.calibrate.schedulers.slurm import cancel_steps, find_slurm, without_slurm_options
from precice_lb.exceptions import CalibrationError

__all__ = ["SrunLauncher", "is_heterogeneous", "step_tokens", "total_nodes"]


def is_heterogeneous(tasks: Sequence[Task]) -> bool:
    """Whether participants ask for resources of different kinds."""
    return any(task.options for task in tasks)


def total_nodes(tasks: Sequence[Task]) -> int | None:
    """Return how many nodes a run takes, None where participants may share nodes."""
    nodes = [task.nodes for task in tasks]
    return None if None in nodes else sum(count or 0 for count in nodes)


def step_tokens(
    srun: str,
    tasks: Sequence[Task],
    task: Task,
    options: LauncherOptions,
    *,
    job: str | None = None,
    name: str | None = None,
) -> list[str]:
    """Return the ``srun`` line of a participant, such that no core gets two ranks.

    With ranks per node, each participant has nodes of its own, counted from the allocation's first (``--relative``),
    and the ranks fill them one after the other (``--distribution=plane``). Otherwise ``--exact`` makes Slurm give each
    step just the cores it asks for: without it the first step has whole nodes, and the second waits for it to end.
    ``--overlap``, which lets steps share cores, is never used. Where any participant has options of its own, each is a
    component of a heterogeneous job. Outside of the allocation ``job`` is its number; ``name`` finds a step again.
    """
    place = tasks.index(task)
    line = [srun]
    line += [] if job is None else [f"--jobid={job}"]
    line += [] if name is None else [f"--job-name={name}"]
    line += [f"--het-group={place}"] if is_heterogeneous(tasks) else []
    if task.nodes is not None:
        line.append(f"--nodes={task.nodes}")
        if total_nodes(tasks) is not None and not is_heterogeneous(tasks):
            line.append(f"--relative={total_nodes(tasks[:place])}")
    line.append(f"--ntasks={task.ranks}")
    if task.nodes is not None and task.nodes > 1:
        line.append(f"--distribution=plane={task.ranks_on_node}")
    # With --exact, a step gets no GPU that it does not ask for.
    line += [option for option in task.options if option.startswith(("--gres", "--gpus", "-G"))]
    line += ["--cpus-per-task=1", "--exact", "--kill-on-bad-exit=1", "--export=ALL"]
    line += ["--cpu-bind=cores"] if options.pin else []
    line += [] if options.mpi is None else [f"--mpi={options.mpi}"]
    return [*line, *options.arguments, *task.command]


class SrunLauncher(Launcher):
    """``srun`` steps inside the Slurm allocation in which the campaign itself runs.

    Start the campaign in the batch script, or in the shell of ``salloc``, not as a step: a step would hold cores that
    its own runs then wait for.
    """

    keys = frozenset({"program", "arguments", "pin", "ranks_per_node", "mpi"})
    many_nodes = True

    def __init__(self, options: LauncherOptions, directory: Path = Path()) -> None:
        super().__init__(options, directory)
        self.program = find_slurm("srun", options.program)
        self.job = os.environ.get("SLURM_JOB_ID", "")
        if not self.job:
            raise CalibrationError(
                "launcher.name: srun needs a Slurm allocation, and this process is in none: start the campaign in a "
                "batch script or under salloc, or use the launcher slurm, which submits its runs"
            )

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse a run that does not fit into the allocation."""
        if is_heterogeneous(tasks):
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
        self.check_ranks(sum(task.ranks for task in tasks))

    def check_ranks(self, ranks: int) -> None:
        """Refuse more ranks than the allocation has processors."""
        cpus = allocated_cpus(os.environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
        if 0 < cpus < ranks and "SLURM_HET_SIZE" not in os.environ:
            raise CalibrationError(f"{ranks} ranks need as many CPUs; the allocation has {cpus}")

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the ``srun`` line of a participant."""
        return step_tokens(self.program, plan.tasks, task, self.options, name=plan.token or None)

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Leave out what ``srun`` would take for options."""
        return without_slurm_options(inherited)

    def stop(self, token: str, job: str | None) -> None:
        """Cancel the steps of this allocation that carry the token as their name."""
        cancel_steps(self.job, token)


def allocated_cpus(text: str) -> int:
    """Add up ``SLURM_JOB_CPUS_PER_NODE``, such as 8(x2),4; 0 where it does not say."""
    parts = [re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part) for part in text.split(",")]
    return sum(int(part[1]) * int(part[2] or 1) for part in parts if part)
