"""``mpiexec`` on this machine or on a list of hosts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from precice_lb.calibrate.launchers import Launcher
from precice_lb.calibrate.launchers.resources import (
    MPIFamily,
    available_cores,
    core_list,
    disjoint_cores,
    disjoint_hosts,
    find_mpiexec,
    mpi_library,
    read_hosts,
    require_cores,
)
from precice_lb.calibrate.plan import LauncherOptions, RunPlan, Task, file_name
from precice_lb.exceptions import CalibrationError
from precice_lb.plural import plural

__all__ = ["MpiexecLauncher"]

# By these a launcher takes the nodes of an allocation, all from the first one on, for each participant anew.
_BATCH_PREFIXES = ("SLURM_", "SLURMD_", "PBS_", "LSB_", "COBALT_")


class MpiexecLauncher(Launcher):
    """``mpiexec`` of MPICH, Intel MPI or Open MPI, every participant on cores or hosts of its own.

    Left to themselves, Hydra binds nothing and Open MPI binds each participant's ranks to cores from the first core
    on, so that two participants share cores while others idle. So every rank is pinned to a core that no other rank
    has: Hydra by ``-bind-to user:``, Intel MPI by a variable, Open MPI up to version 4 by a rankfile with the kernel's
    numbers (version 5 counts cores in an order of its own), anything else by ``taskset`` around it. With more ranks
    than cores, which must be asked for, nothing is pinned.
    """

    keys = frozenset({"program", "arguments", "oversubscribe", "pin", "hostfile", "ranks_per_node"})

    def __init__(self, options: LauncherOptions, directory: Path = Path()) -> None:
        super().__init__(options, directory)
        self.program = find_mpiexec(options.program)
        self.library = mpi_library(self.program)
        self.hosts = None if options.hostfile is None else read_hosts(options.hostfile)
        self.cores = available_cores()
        if self.hosts is None and int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) > 1:
            raise CalibrationError(
                "launcher.name: mpiexec without launcher.hostfile uses one node, but this allocation has "
                f"{os.environ['SLURM_JOB_NUM_NODES']}: use the launcher srun"
            )

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse more ranks than cores, or than the hosts have slots."""
        if self.hosts is not None:
            disjoint_hosts(tasks, self.hosts)
        elif not self.options.oversubscribe:
            disjoint_cores(tasks, self.cores)

    def check_ranks(self, ranks: int) -> None:
        """Refuse more ranks than cores, or than the hosts have slots."""
        if self.hosts is not None:
            if ranks > (slots := sum(count for _, count in self.hosts)):
                raise CalibrationError(
                    f"budget.ranks: {plural(ranks, 'rank')}, but the hosts of launcher.hostfile have "
                    f"{plural(slots, 'slot')}: lower budget.ranks or name more hosts"
                )
        elif not self.options.oversubscribe:
            require_cores(ranks, len(self.cores))

    def files(self, plan: RunPlan) -> dict[Path, str]:
        """Return host files, or Open MPI's rankfiles."""
        if self.hosts is not None:
            given = disjoint_hosts(plan.tasks, self.hosts)
            form = "{} slots={}\n" if self.library.family is MPIFamily.OPEN_MPI else "{}:{}\n"
            return {
                _file(plan, name, "hosts"): "".join(form.format(*host) for host in hosts)
                for name, hosts in given.items()
            }
        if self._rankfiles(plan.tasks):
            return {
                _file(plan, name, "ranks"): "".join(
                    f"rank {rank}=localhost slot={core}\n" for rank, core in enumerate(cores)
                )
                for name, cores in disjoint_cores(plan.tasks, self.cores).items()
            }
        return {}

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return ``mpiexec … -n ranks command``."""
        before: list[str] = []
        options: list[str] = []
        if self.hosts is not None:
            options = self._on_hosts(plan, task)
        elif self._pinned(plan.tasks):
            before, options = self._on_cores(plan, task)
        elif self.library.family is MPIFamily.OPEN_MPI:
            options = ["--oversubscribe", "--bind-to", "none"]
        return [*before, self.program, *options, *self.options.arguments, "-n", str(task.ranks), *task.command]

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Leave out a batch system's variables, so that each ``mpiexec`` keeps to where it is told to run.

        Open MPI gets its permission to run as root where that is so.
        """
        kept = {name: value for name, value in inherited.items() if not name.startswith(_BATCH_PREFIXES)}
        if self.library.family is MPIFamily.OPEN_MPI and os.geteuid() == 0:
            kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return kept

    def _pinned(self, tasks: Sequence[Task]) -> bool:
        return self.hosts is None and self.options.pin and sum(task.ranks for task in tasks) <= len(self.cores)

    def _rankfiles(self, tasks: Sequence[Task]) -> bool:
        return self._pinned(tasks) and self.library.family is MPIFamily.OPEN_MPI and self.library.major < 5

    def _on_cores(self, plan: RunPlan, task: Task) -> tuple[list[str], list[str]]:
        """Return what comes before mpiexec, and its options, so that the ranks get cores of their own."""
        cores = disjoint_cores(plan.tasks, self.cores)[task.participant]
        family = self.library.family
        if family is MPIFamily.HYDRA:
            return [], ["-bind-to", f"user:{core_list(cores)}"]
        if family is MPIFamily.INTEL:
            return [], ["-genv", "I_MPI_PIN_PROCESSOR_LIST", core_list(cores)]
        if self._rankfiles(plan.tasks):
            file = str(_file(plan, task.participant, "ranks"))
            return [], ["--mca", "rmaps_rank_file_physical", "1", "--rankfile", file]
        options = ["--bind-to", "none"] if family is MPIFamily.OPEN_MPI else []
        taskset = shutil.which("taskset")
        return ([] if taskset is None else [taskset, "-c", core_list(cores)]), options

    def _on_hosts(self, plan: RunPlan, task: Task) -> list[str]:
        file = str(_file(plan, task.participant, "hosts"))
        bind = self.options.pin and not self.options.oversubscribe
        if self.library.family is MPIFamily.OPEN_MPI:
            # Its daemons on other hosts start with a bare environment.
            exported = [token for name in sorted(plan.variables) for token in ("-x", name)]
            crowded = ["--oversubscribe"] if self.options.oversubscribe else []
            return ["--hostfile", file, *crowded, "--bind-to", "core" if bind else "none", *exported]
        return ["-f", file, *(["-bind-to", "core"] if bind else [])]


def _file(plan: RunPlan, participant: str, kind: str) -> Path:
    return plan.directory / f"{file_name(participant)}.{kind}"
