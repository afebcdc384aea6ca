"""Launchers, by one registry: local ``mpiexec``, ``srun`` in an allocation, jobs of Slurm, and a user's template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from precice_lb.calibrate.launchers.base import Launcher
from precice_lb.calibrate.plan import LauncherOptions
from precice_lb.exceptions import CalibrationError
from precice_lb.plugins import LAUNCHERS

__all__ = ["Launcher", "launcher_class", "make_launcher"]


def launcher_class(name: str) -> type[Launcher]:
    """Return the launcher of a name."""
    if name not in LAUNCHERS:
        raise CalibrationError(f"unknown launcher {name!r}: expected one of {', '.join(sorted(LAUNCHERS))}")
    found: Any = LAUNCHERS[name]
    if not (isinstance(found, type) and issubclass(found, Launcher)):
        raise CalibrationError(
            f"launcher {name!r}: expected a subclass of precice_lb.calibrate.Launcher, found {found!r}; repair or "
            "uninstall the distribution that adds it"
        )
    return found


def make_launcher(name: str, options: LauncherOptions | None = None, directory: Path = Path()) -> Launcher:
    """Make a launcher for a campaign that lives in a directory."""
    return launcher_class(name)(options or LauncherOptions(), directory)
