"""Launchers, by one registry: local ``mpiexec``, ``srun`` in an allocation, jobs of Slurm, and a user's template."""

from __future__ import annotations

from precice_lb.calibrate.banner import is_banner, without_banner
from precice_lb.calibrate.launchers.base import Launcher, launcher, launcher_class, launcher_names, make_launcher
from precice_lb.calibrate.placeholders import check_placeholders, fill
from precice_lb.calibrate.plan import RUN_VARIABLES, LauncherOptions, RunPlan, Task, file_name

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
