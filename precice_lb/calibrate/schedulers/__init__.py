"""Batch systems that take runs as jobs: Slurm, and a user's own commands."""

from __future__ import annotations

from precice_lb.calibrate.schedulers.base import Scheduler

__all__ = ["Scheduler"]
