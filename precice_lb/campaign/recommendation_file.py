"""Read the recommendation that a campaign wrote into its directory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from precice_lb.campaign.state import Document, read_json
from precice_lb.exceptions import DataError
from precice_lb.recommend.result import FORMAT, FORMAT_VERSION, RECOMMENDATION_FILE
from precice_lb.text import with_versions

RECOMMENDATION = Document(FORMAT, FORMAT_VERSION, "recommendation of a campaign")


@dataclass(config=ConfigDict(extra="ignore"))
class WrittenRecommendation:
    """The part of a written recommendation from which later commands go on.

    Attributes
    ----------
    split : dict of str to int
        Ranks of each participant, or its cores if the budget counts cores.
    total_ranks : int
        The budget, in `unit`.
    unit : str
        What the budget counts: ranks, cores or nodes.
    versions : dict of str to str
        Version of each participant that has several.
    parameters : dict of str to float
        Parameter values for which the split is recommended.
    interval : tuple of (float or None, float or None)
        Bounds of the seconds per time window; None if they are not known.
    """

    split: dict[str, int]
    total_ranks: int
    unit: str
    versions: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)
    interval: tuple[float | None, float | None] = (None, None)


def read_recommendation(directory: Path) -> WrittenRecommendation | None:
    """Read the last recommendation of a campaign, or return None if there is none.

    Parameters
    ----------
    directory : Path
        Directory of the campaign.

    Raises
    ------
    CalibrationError
        The file is damaged, or has another format version.
    """
    return read_json(directory / RECOMMENDATION_FILE, WrittenRecommendation, RECOMMENDATION)


def longest_window_seconds(directory: Path, split: Mapping[str, int], versions: Mapping[str, str]) -> float:
    """Return the upper bound of the window time of a split, if it is the one that a campaign recommends.

    Parameters
    ----------
    directory : Path
        Directory of the campaign.
    split : mapping from participant to int
        Ranks, or cores.
    versions : mapping from participant to str
        The version of each participant, empty for participants without versions.

    Returns
    -------
    float
        Seconds per time window; NaN for another split, without a recommendation, or without an interval.
    """
    recommendation = read_recommendation(directory)
    if recommendation is None:
        return math.nan
    is_recommended = recommendation.split == split and recommendation.versions.items() <= versions.items()
    if not is_recommended:
        return math.nan
    upper_bound = recommendation.interval[1]
    return math.nan if upper_bound is None else upper_bound


def recommended_split(directory: Path) -> dict[str, int]:
    """Read the split that a campaign recommends.

    Parameters
    ----------
    directory : Path
        Directory of the campaign.

    Returns
    -------
    dict of str to int
        Ranks of each participant, or its cores if the budget counts cores. A participant with versions is keyed with
        the chosen one, as in ``Fluid:gpu``.

    Raises
    ------
    DataError
        The directory has no recommendation.
    CalibrationError
        The recommendation is damaged, or has another format version.
    """
    recommendation = read_recommendation(directory)
    if recommendation is None:
        raise DataError(
            f"{directory / RECOMMENDATION_FILE}: expected the recommendation of a campaign, found none: run precice-lb "
            "calibrate, or give --split"
        )
    return with_versions(recommendation.split, recommendation.versions)
