"""Launchers, by one registry: local ``mpiexec``, ``srun`` in an allocation, jobs of Slurm, and a user's template."""

from __future__ import annotations

# Importing them registers them.
from precice_lb.calibrate.launchers import local, slurm, srun, template  # noqa: F401
from precice_lb.calibrate.launchers.banner import is_banner, without_banner
from precice_lb.calibrate.launchers.base import Launcher, launcher, launcher_class, launcher_names, make_launcher
from precice_lb.calibrate.launchers.placeholders import check_placeholders, fill
from precice_lb.calibrate.launchers.plan import RUN_VARIABLES, LauncherOptions, RunPlan, Task, file_name

__all__ = [
    "RUN_VARIABLES",
    "Launcher",
    "LauncherOptions",
    "RunPlan",
    "Task",
    "check_placeholders",
    "file_name",
    "fill",
    "is_banner",
    "launcher",
    "launcher_class",
    "launcher_names",
    "make_launcher",
    "without_banner",
]
