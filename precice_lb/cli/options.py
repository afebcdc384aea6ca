"""Reading the values of options that are more than a number or a path."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from precice_lb.exceptions import DataError
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS

if TYPE_CHECKING:
    from precice_lb.dataset import Measurements
    from precice_lb.schedule import Schedule

LEARNER_HELP = f"{DEFAULT_LEARNER} (default), {', '.join(name for name in LEARNERS if name != DEFAULT_LEARNER)}"
"""Every learner by name, for the help of options."""

__all__ = ["by_participant", "parallel_of", "parameter_values", "preference", "required", "schedule_of"]


def required(sources: Sequence[Path], what: str) -> Sequence[Path]:
    """Return the sources, or refuse if there is none of ``what``."""
    if not sources:
        raise DataError(f"expected at least one {what}, found none; precice-lb --help names the commands")
    return sources


def schedule_of(
    measurements: Measurements, coupling: Literal["parallel", "serial"] | None, config: Path | None
) -> Schedule:
    """Take the coupling from the option, else from the recorded configuration, else assume it parallel."""
    from precice_lb.precice_xml import parse_configuration
    from precice_lb.schedule import Schedule

    if coupling is not None and config is not None:
        raise DataError("expected either --coupling or --config, found both; --config says more")
    if config is not None:
        return Schedule.from_config(config, measurements.iterations, measurements.overhead)
    names = list(measurements.samples)
    if coupling == "serial":
        return Schedule.serial(names)
    if coupling == "parallel" or measurements.configuration is None:
        return Schedule.parallel(names)
    configuration = parse_configuration(measurements.configuration)
    return Schedule.from_config(configuration, measurements.iterations, measurements.overhead)


def parallel_of(
    measurements: Measurements, coupling: Literal["parallel", "serial"] | None, config: Path | None
) -> Schedule | None:
    """Exchange serial for parallel schemes in what `schedule_of` takes; None where there is none to exchange."""
    from precice_lb.precice_xml import parse_configuration, read_configuration
    from precice_lb.recommend import parallel_instead
    from precice_lb.schedule import Schedule

    if coupling is not None:
        return Schedule.parallel(list(measurements.samples)) if coupling == "serial" else None
    if config is not None:
        configuration = read_configuration(config)
    elif measurements.configuration is not None:
        configuration = parse_configuration(measurements.configuration)
    else:
        return None
    return parallel_instead(configuration, measurements.iterations, measurements.overhead)


def preference(text: str) -> Literal["time", "cost"] | float:
    """Read ``time``, ``cost`` or the weight of time between 0 and 1."""
    if text in ("time", "cost"):
        return "time" if text == "time" else "cost"
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= 1:
        raise DataError(f"--prefer: expected time, cost or the weight of time from 0 to 1, found {text!r}")
    return weight


def by_participant(
    texts: Sequence[str], names: Sequence[str], option: str, kind: Callable[[Any], float]
) -> dict[str, Any]:
    """Read ``Inner=2,Outer=4`` or a JSON object, given once or several times."""
    values: dict[str, Any] = {}
    for text in texts:
        try:
            for name, value in _pairs(text):
                number = kind(value)
                if not (math.isfinite(number) and number > 0):
                    raise ValueError(value)
                values[name.strip()] = number
        except (ValueError, TypeError):
            wanted = "a whole number" if kind is int else "a number"
            raise DataError(
                f"{option}: expected participant={wanted} above 0 for each participant, such as "
                f"{names[0]}=2, found {text!r}"
            ) from None
    for name in values:
        if name not in names:
            raise DataError(f"{option}: expected one of the participants {', '.join(names)}, found {name!r}")
    return values


def parameter_values(texts: Sequence[str]) -> dict[str, float | str | None]:
    """Read ``level=8,mesh=fine`` or a JSON object, given once or several times; ``any`` is None."""
    values: dict[str, float | str | None] = {}
    for text in texts:
        try:
            for name, value in _pairs(text):
                if not name or value == "" or not isinstance(value, str | int | float) or isinstance(value, bool):
                    raise ValueError(name)
                values[name] = None if value == "any" else _number_or_text(value)
        except (ValueError, TypeError, AttributeError):
            raise DataError(
                f"--parameter: expected name=value, such as level=8, or name=any, found {text!r}; a JSON object where "
                "a name or value has a comma"
            ) from None
    return values


def _pairs(text: str) -> list[tuple[str, Any]]:
    """Split ``a=1,b=2`` or a JSON object; what is no pair gets an empty name."""
    if text.lstrip().startswith("{"):
        return [(str(name), value) for name, value in json.loads(text).items()]
    return [(name.strip(), value.strip()) for name, _, value in (part.rpartition("=") for part in text.split(","))]


def _number_or_text(value: str | float) -> float | str:
    try:
        return float(value)
    except ValueError:
        return str(value)
