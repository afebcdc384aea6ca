"""What a configuration gives a schedule, and what it leaves to measurement: iterations, acceleration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml.records import Configuration, CouplingScheme
from precice_lb.schedule.program import Program, check_supported, period_of, programs_of

__all__ = ["program_variants"]

Variants = list[tuple[float, dict[str, Program]]]


def program_variants(
    configuration: Configuration, iterations: Mapping[str, float], acceleration: Mapping[str, float]
) -> tuple[Variants, str, dict[str, float], dict[str, int]]:
    """Give what `precice_lb.schedule.Schedule` is made of: programs, description, iterations and windows."""
    schemes = configuration.coupling_schemes
    check_supported(configuration)
    counts, parts = _iterations(configuration, iterations), _acceleration(configuration, acceleration)
    variants = [(weight, programs_of(configuration, whole, parts)) for weight, whole in _whole_counts(counts)]
    each = {
        name: next((count for index, count in counts.items() if name in schemes[index].participants), 1.0)
        for name in configuration.participants
    }
    windows = {name: len(steps) for name, steps in period_of(configuration).steps.items()}
    text = "; ".join(_describe(scheme, counts.get(index)) for index, scheme in enumerate(schemes))
    return variants, text, each, windows


def _iterations(configuration: Configuration, given: Mapping[str, float]) -> dict[int, float]:
    """Find the iterations per window of each implicit scheme, by its index."""
    unknown = [name for name in given if name not in configuration.participants]
    if unknown:
        known = ", ".join(configuration.participants)
        raise ScheduleError(f'{configuration.path}: expected iterations of {known}, found some of "{unknown[0]}"')
    counts = {}
    for index, scheme in enumerate(configuration.coupling_schemes):
        if not scheme.is_implicit:
            continue
        values = [float(given[name]) for name in scheme.participants if name in given]
        if values:
            counts[index] = sum(values) / len(values)
        elif not scheme.has_convergence_measure and scheme.max_iterations is not None:
            counts[index] = float(scheme.max_iterations)
        elif len(configuration.coupling_schemes) == 1:
            counts[index] = 1.0
        else:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected the coupling iterations per time window of "
                f"{' or '.join(scheme.participants)}, found none; several coupling schemes together need them"
            )
        if not 1 <= counts[index] < math.inf:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected at least 1 coupling iteration per time window, "
                f"found {counts[index]:g}"
            )
    return counts


def _whole_counts(counts: Mapping[int, float]) -> Iterator[tuple[float, dict[int, int]]]:
    """Whole numbers of iterations around each mean, with the weight of each choice; the weights sum to 1."""
    choices = []
    for count in counts.values():
        low, share = math.floor(count), count - math.floor(count)
        choices.append([(low, 1 - share), (low + 1, share)] if share else [(low, 1.0)])
    for choice in product(*choices):
        whole = {index: number for index, (number, _) in zip(counts, choice, strict=True)}
        yield math.prod(share for _, share in choice), whole


def _acceleration(configuration: Configuration, given: Mapping[str, float]) -> dict[str, float]:
    """Keep the parts of those participants that accelerate, checked."""
    accelerating = [_accelerates(scheme) for scheme in configuration.coupling_schemes]
    parts = {name: float(part) for name, part in given.items() if name in accelerating}
    for name, part in parts.items():
        if not 0.0 <= part < 1.0:
            raise ScheduleError(
                f'{configuration.path}: expected the part of its compute seconds that "{name}" accelerates for as a '
                f"number from 0 to below 1, found {part:g}"
            )
    return parts


def _accelerates(scheme: CouplingScheme) -> str | None:
    """Who accelerates: the second participant, or the controller (preCICE's ``doImplicitStep``)."""
    if scheme.acceleration is None:
        return None
    return scheme.controller if scheme.kind == "multi" else scheme.participants[1]


def _describe(scheme: CouplingScheme, iterations: float | None) -> str:
    count = f" ({iterations:g} iterations)" if iterations is not None and iterations != 1 else ""
    return f"{scheme.kind} {', '.join(scheme.participants)}{count}"
