"""A split as people use it: a shell script with a line per participant, a job script for Slurm, and JSON."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from precice_lb.calibrate.launchers import Launcher
from precice_lb.calibrate.launchers.local import BATCH_PREFIXES, MpiexecLauncher
from precice_lb.calibrate.launchers.slurm import (
    SlurmLauncher,
    SrunLauncher,
    StepLauncher,
    job_header,
    resource_options,
    total_nodes,
)
from precice_lb.calibrate.plan import VERSION_VARIABLE, RunPlan, fill
from precice_lb.calibrate.prepare import tasks_of, tokens_of
from precice_lb.calibrate.schedulers import body, exports
from precice_lb.calibrate.schedulers.slurm import UNSET_OPTIONS
from precice_lb.exceptions import CalibrationError, DataError, PreciceLBError
from precice_lb.layout import split_text
from precice_lb.names import visible, with_versions
from precice_lb.plain import json_text
from precice_lb.plural import plural
from precice_lb.precice_xml import read_configuration

if TYPE_CHECKING:
    from precice_lb.calibrate import Study


def write_scripts(study: Study, split: Mapping[str, int], directory: Path) -> list[Path]:
    """Write ``run.sh``, ``job.sbatch`` and ``split.json`` for a split into a directory.

    Both scripts work on the study's case itself, or on the one named as their first argument; they prepare it, start
    all participants with their logs in it, wait, and end with the exit code of the first that failed. ``run.sh`` starts
    them as the study's launcher does where that is ``mpiexec``, a template or, in an allocation, ``srun``; else with
    this machine's ``mpiexec`` where there is one. Where more ranks than this machine has cores are to be pinned, cores
    are counted from 0.
    """
    if set(split) != set(study.names):
        raise DataError(f"expected ranks for {', '.join(study.names)}, found them for {', '.join(split) or 'nobody'}")
    # The scripts change into the case, and name files that are here.
    folder = directory.expanduser().resolve()
    variables = {"OMP_NUM_THREADS": "1"} | study.environment
    plan = RunPlan(
        study.path.stem, folder, tasks_of(study, split, Path(), Path()), variables=variables, whole_logs=True
    )
    contents = {folder / "job.sbatch": _job(study, plan), **_shell(study, plan)}
    values = {
        "format": "precice-lb-split",
        "format_version": 1,
        "split": {task.participant: task.cores for task in plan.tasks},
        "total_ranks": plan.ranks,
    }
    if layouts := {
        task.participant: {"ranks": task.ranks, "threads": task.threads}
        for task in plan.tasks
        if task.participant in study.layouts
    }:
        values |= {"total_cores": plan.cores, "layouts": layouts}
    contents[folder / "split.json"] = json_text(values)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in contents.items():
            path.write_text(text, encoding="utf-8")
            if path.suffix in {".sh", ".sbatch"}:
                path.chmod(0o755)
    except OSError as error:
        raise DataError(f"{folder}: the launch scripts cannot be written: {error.strerror}") from error
    return [path for path in contents if path.suffix in {".sh", ".sbatch", ".json"}]


def _shell(study: Study, plan: RunPlan) -> dict[Path, str]:
    """Return ``run.sh`` and the files it needs; nothing where this machine has no launcher for it."""
    name = study.launcher.name
    in_allocation = name == "srun" and "SLURM_JOB_ID" in os.environ
    try:
        launcher = (study.launcher if name in {"mpiexec", "template"} or in_allocation else MpiexecLauncher()).ready()
    except CalibrationError:
        return {}
    check = unset = ""
    if isinstance(launcher, SrunLauncher):
        unset = UNSET_OPTIONS
    if isinstance(launcher, MpiexecLauncher):
        # As `MpiexecLauncher.environment` does.
        unset = "unset " + " ".join(f'"${{!{prefix}@}}"' for prefix in BATCH_PREFIXES) + "\n"
    if isinstance(launcher, MpiexecLauncher) and launcher.hosts is None and not launcher.oversubscribe:
        if plan.cores > len(launcher.cores):
            launcher.cores = tuple(range(plan.cores))
        needed = plural(plan.cores, "core")
        # Left to itself, nproc tells the threads that OpenMP may start.
        check = (
            "cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)\n"
            f'[ "$cores" -ge {plan.cores} ] || {{ echo "$0: expected {needed}, found $cores" >&2; exit 2; }}\n'
        )
    launcher.check(plan.tasks)
    script = f"#!/bin/bash\n{_script(study, plan, launcher, './run.sh', check + unset)}"
    return {plan.directory / "run.sh": script, **launcher.files(plan)}


def _job(study: Study, plan: RunPlan) -> str:
    """Return the job script for Slurm."""
    own, name = study.launcher, visible(plan.name)
    # Arguments of another program are none of srun.
    keys = ("arguments", "mpi", "options", "pin", "setup") if isinstance(own, StepLauncher) else ("pin", "setup")
    slurm = SlurmLauncher(**{key: getattr(own, key) for key in keys if hasattr(own, key)})
    common = [f"--job-name={shlex.quote(name)}", f"--output={shlex.quote(f'{name}-%j.log')}", "--no-requeue"]
    header = job_header(resource_options(plan.tasks, slurm.options), common)
    setup = "".join(f"{line}\n" for line in slurm.setup)
    before = f"{_warning(study, plan)}\n{UNSET_OPTIONS}{setup}"
    return header + _script(study, plan, slurm, "sbatch job.sbatch", before)


def _script(study: Study, plan: RunPlan, launcher: Launcher, usage: str, before: str) -> str:
    """Return the lines of a script behind its header: to the case, prepare it for these ranks, start all."""
    split = {task.participant: task.cores for task in plan.tasks}
    versions = {task.participant: task.variables.get(VERSION_VARIABLE, "") for task in plan.tasks}
    text = split_text(with_versions(split, versions), with_versions(study.layouts, versions))
    beside = shlex.quote(str(Path(sys.executable).parent))
    lines = (
        f"# {text}: {plural(plan.cores, study.unit)}\n# {usage} [CASE]\n{before}"
        f"case={shlex.quote(str(study.case_directory))}\n"
        'cd "${1:-$case}" || exit 2\n'
        f'export PATH={beside}{os.pathsep}"$PATH"\n{exports({**plan.variables, **launcher.environment({})})}'
    )
    for participant, task in zip(study.participants, plan.tasks, strict=True):
        origin = study.case_directory / participant.directory
        place = shlex.quote(participant.directory)
        for template in participant.templates:
            text = fill((origin / template).read_text(encoding="utf-8"), task.values)
            target = shlex.quote(str(Path(participant.directory) / template.removesuffix(".in")))
            lines += f"printf %s {shlex.quote(text)} >{target} || exit\n"
        for command in participant.prepare:
            lines += f"(cd {place} && {shlex.join(tokens_of(study, participant, task, command))}) || exit\n"
    return f'{lines}\n{body(launcher.starts(plan))}exit "$status"\n'


def _warning(study: Study, plan: RunPlan) -> str:
    """Return a comment where the case's own configuration would not work on several nodes."""
    try:
        elements = read_configuration(study.configuration_path).root.children
    except PreciceLBError:
        return ""
    loopback = any(e.tag == "m2n:sockets" and e.attributes.get("network", "lo") == "lo" for e in elements)
    if not loopback or (total_nodes(plan.tasks) or 2) == 1 or study.case.network == "lo":
        return ""
    name = study.case.network or "the nodes' interface, such as ib0"
    return (
        f"# Before the first run: give every m2n:sockets of {visible(study.case.configuration)} "
        f"network={visible(name)}; it is on lo.\n"
    )
