"""The same coupling with its serial schemes made parallel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from precice_lb.precice_xml import Configuration, read_configuration
from precice_lb.schedule import Schedule

__all__ = ["parallel_instead", "parallel_of"]


def parallel_instead(
    configuration: Configuration,
    iterations: Mapping[str, float] | None = None,
    overhead: Mapping[str, float] | None = None,
) -> Schedule | None:
    """Exchange the kind of every serial scheme for the parallel one.

    Parameters
    ----------
    configuration : Configuration
        The coupling as it is.
    iterations, overhead : mappings from participant to float, optional
        As of `precice_lb.schedule.Schedule.from_config`; a parallel implicit scheme is taken to need as many coupling
        iterations, though in general it needs more.

    Returns
    -------
    Schedule or None
        None where no scheme is serial, or one takes its window size from its first participant, which parallel ones
        cannot.
    """
    schemes = configuration.coupling_schemes
    if not any(scheme.is_serial for scheme in schemes) or any(scheme.window_size_from_first for scheme in schemes):
        return None
    parallel = tuple(dataclasses.replace(scheme, kind=scheme.kind.replace("serial", "parallel")) for scheme in schemes)
    return Schedule.from_config(dataclasses.replace(configuration, coupling_schemes=parallel), iterations, overhead)


def parallel_of(coupling: str | Path | Schedule, names: tuple[str, ...]) -> Schedule | None:
    """Exchange serial for parallel in what `recommend_split` takes as coupling; None where that is not possible."""
    if isinstance(coupling, Schedule) or coupling == "parallel":
        return None
    if coupling == "serial":
        return Schedule.parallel(names)
    return parallel_instead(read_configuration(coupling))
