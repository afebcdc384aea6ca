"""A campaign's directory as the source of a recommendation: its study says for what, unless options say otherwise."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from precice_lb.cli.case import Case
from precice_lb.cli.machine import Machine

if TYPE_CHECKING:
    from precice_lb.calibrate import CampaignResult, Settings
    from precice_lb.dataset import Measurements

__all__ = ["campaign_of", "told_by_study"]


def campaign_of(sources: Sequence[Path]) -> tuple[CampaignResult, Settings | None] | None:
    """Read a campaign, and what its study says where that was kept, where its directory is the only source."""
    if len(sources) != 1 or not sources[0].is_dir():
        return None
    from precice_lb.calibrate import load_campaign

    return load_campaign(sources[0])


def told_by_study(
    settings: Settings | None, ranks: int | None, machine: Machine | None, case: Case, measurements: Measurements
) -> tuple[int | None, Case]:
    """Take from the study what the command line leaves open: budget, bounds, parameters and learner."""
    if settings is None:
        return ranks, case
    if ranks is None and (machine is None or (machine.cores is None and machine.nodes is None)):
        ranks = settings.total_ranks
    columns = {column for columns in measurements.parameters.values() for column in columns}
    parameters = {key: value for key, value in settings.parameters.items() if key in columns}
    return ranks, dataclasses.replace(
        case,
        minimum_ranks=case.minimum_ranks or [json.dumps(settings.minimum_ranks)],
        maximum_ranks=case.maximum_ranks or ([json.dumps(settings.maximum_ranks)] if settings.maximum_ranks else None),
        parameter=case.parameter or ([json.dumps(parameters)] if parameters else None),
        learner=case.learner or settings.learner,
    )
