"""What Slurm is asked for: nodes and cores of a job, of the components of a heterogeneous one, and of its steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from precice_lb.calibrate.plan import LauncherOptions, Task

# Of a participant alone; the only ones that a step takes, too.
GPU_OPTIONS = ("--gres", "--gpus", "-G")
_PLACEMENT = re.compile(r"^(-[Nn]|--nodes\b|--ntasks\b|--ntasks-per-node\b)")


def resource_options(tasks: Sequence[Task], options: LauncherOptions) -> list[list[str]]:
    """Return the options that ask for a run's nodes and tasks, one list per component of the job.

    Where the study's own options name nodes or tasks, nothing is added to them.
    """
    if not is_heterogeneous(tasks):
        return [_placed(tasks, options.options)]
    return [_placed([task], (*options.options, *task.options)) for task in tasks]


def _placed(tasks: Sequence[Task], own: Sequence[str]) -> list[str]:
    if any(_PLACEMENT.match(option) for option in own):
        return list(own)
    block = _block(tasks)
    # A block may have cores left that are too few for another rank's threads.
    return [*own, *_size(sum(-(-task.ranks // (block // task.threads)) for task in tasks), tasks, total_nodes(tasks))]


def _block(tasks: Sequence[Task]) -> int:
    """Cores that Slurm is to keep together on a node, where a rank's threads find them."""
    return max(task.threads for task in tasks)


def _size(blocks: int, tasks: Sequence[Task], nodes: int | None) -> list[str]:
    """Ask for blocks, or nodes, on which all cores are the job's: they need no blocks, which may not fill them."""
    block = _block(tasks)
    if nodes is None:
        return [f"--ntasks={blocks}", f"--cpus-per-task={block}"]
    on_node = max(task.ranks_on_node * task.threads for task in tasks)
    block = 1 if on_node % block else block
    return [f"--nodes={nodes}", f"--ntasks-per-node={on_node // block}", f"--cpus-per-task={block}"]


def job_header(components: Sequence[Sequence[str]], common: Sequence[str]) -> str:
    """Return the ``#SBATCH`` lines: ``common`` for the job, then the components of a heterogeneous one."""
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in common)]
    for index, component in enumerate(components):
        lines += ["#SBATCH hetjob"] if index else []
        lines += [f"#SBATCH {option}" for option in component]
    return "\n".join(lines) + "\n"


def holder_options(largest: Sequence[Task], cores: int, options: LauncherOptions) -> list[list[str]]:
    """Return the options of a job in which every split of so many cores finds its place, like `resource_options`."""
    if is_heterogeneous(largest) or any(_PLACEMENT.match(option) for option in options.options):
        return resource_options(largest, options)
    nodes = total_nodes(largest)
    if nodes is not None:
        # Every participant but one may leave a node partly empty.
        nodes = min(-(-cores // min(task.ranks_per_node or 1 for task in largest)) + len(largest) - 1, nodes)
    return [[*options.options, *_size(-(-cores // _block(largest)), largest, nodes)]]


def is_heterogeneous(tasks: Sequence[Task], *, of_one: bool = False) -> bool:
    """Whether participants ask for resources of different kinds; GPUs are no such in an allocation ``of_one`` kind."""
    return any(not (of_one and option.startswith(GPU_OPTIONS)) for task in tasks for option in task.options)


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
    of_one: bool = False,
) -> list[str]:
    """Return the ``srun`` line of a participant, such that no core gets two ranks and every thread has one.

    With ranks per node, each participant has nodes of its own, counted from the allocation's first (``--relative``),
    and the ranks fill them one after the other (``--distribution=plane``). Otherwise ``--exact`` makes Slurm give each
    step just the cores it asks for: without it the first step has whole nodes, and the second waits for it to end.
    ``--overlap``, which lets steps share cores, is never used. Where any participant has options of its own, each is a
    component of a heterogeneous job; in an allocation ``of_one`` kind, options for GPUs are the step's alone. Outside
    of the allocation ``job`` is its number; ``name`` finds a step again.
    """
    has_groups = is_heterogeneous(tasks, of_one=of_one)
    place = tasks.index(task)
    line = [srun]
    line += [] if job is None else [f"--jobid={job}"]
    line += [] if name is None else [f"--job-name={name}"]
    line += [f"--het-group={place}"] if has_groups else []
    if task.nodes is not None:
        line.append(f"--nodes={task.nodes}")
        if total_nodes(tasks) is not None and not has_groups:
            line.append(f"--relative={total_nodes(tasks[:place])}")
    line.append(f"--ntasks={task.ranks}")
    if task.nodes is not None and task.nodes > 1:
        line.append(f"--distribution=plane={task.ranks_on_node}")
    # With --exact, a step gets no GPU that it does not ask for.
    line += [option for option in task.options if option.startswith(GPU_OPTIONS)]
    line += [f"--cpus-per-task={task.threads}", "--exact", "--kill-on-bad-exit=1", "--export=ALL"]
    line += ["--cpu-bind=cores"] if options.pin else []
    line += [] if options.mpi is None else [f"--mpi={options.mpi}"]
    return [*line, *options.arguments, *task.command]
