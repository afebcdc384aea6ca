"""The subcommand that writes a split as scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from precice_lb.cli.app import app
from precice_lb.cli.flow import name_files
from precice_lb.cli.options import by_participant
from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    from precice_lb.calibrate import Study

__all__ = ["scripts"]


@app.command
def scripts(study: Path, *, split: list[str] | None = None, directory: Path | None = None) -> None:
    """Write a split as a shell script, a job script for Slurm (heterogeneous where needed) and JSON.

    Example: precice-lb scripts configs/pulse.toml --split Inner=11,Outer=5

    Parameters
    ----------
    study
        The study file (TOML) with the case, its participants and the launcher.
    split
        Ranks of each participant, within the study's bounds and budget: Inner=11,Outer=5; by default as recommended at
        the end of the study's campaign.
    directory
        Where the campaign lives, and where `launch` is written; by default what the study says.
    """
    from precice_lb.calibrate import read_study
    from precice_lb.report.documents import JSON_NAME
    from precice_lb.report.launch_scripts import write_launch_scripts

    read = read_study(study)
    place = directory or read.campaign_directory
    ranks = by_participant(split, read.names, "--split", int) if split else _recommended(place)
    _require_bounds(read, ranks, "--split" if split else str(place / JSON_NAME))
    name_files(write_launch_scripts(read, ranks, place))


def _require_bounds(study: Study, split: Mapping[str, int], what: str) -> None:
    """Refuse a split that the study does not allow."""
    if set(split) != set(study.names):
        found = ", ".join(split) or "nobody"
        raise DataError(f"{what}: expected ranks for {', '.join(study.names)}, found them for {found}; name each once")
    for name, (low, high) in study.bounds.items():
        if not low <= split[name] <= high:
            raise DataError(
                f"{what}: expected {low} to {high} ranks for {name}, found {split[name]}; change the split, or the "
                f"bounds of {name} or the budget in {study.path}"
            )
        if split[name] not in study.allow.get(name, [split[name]]):
            raise DataError(
                f"{what}: expected ranks for {name} that [machine] allows ({', '.join(map(str, study.allow[name]))}), "
                f"found {split[name]}; change the split, or [machine] in {study.path}"
            )
    total = sum(split.values())
    if total > study.budget.ranks:
        raise DataError(
            f"{what}: expected at most {study.budget.ranks} ranks in all, found {total}; change the split, or "
            f"budget.ranks in {study.path}"
        )


def _recommended(directory: Path) -> dict[str, int]:
    from precice_lb.report.documents import JSON_NAME

    path = directory / JSON_NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["split"]
        return {str(name): int(count) for name, count in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: expected the recommendation of a campaign, found none: run precice-lb calibrate, or give --split"
        ) from error
