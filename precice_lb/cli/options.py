"""Options of several subcommands, and values that are more than a number or a path."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.plugins import close_match

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun, Measurements
    from precice_lb.recommend.plan import Prefer
    from precice_lb.schedule import Schedule

Stores = Annotated[Path, Parameter(help="Directories of stores, searched with everything below them.")]
"""Where recorded runs are."""
Warmup = Annotated[
    int | None,
    Parameter(
        help="Time windows to leave out of each run; by default what the run says, else 1, or more where more are "
        "unlike those that follow."
    ),
]
"""How much of a run is not learned from."""
Settings = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        help="Any key of a study, by its own name: machine.cores_per_node=48, participants.Fluid.maximum_ranks=96, "
        "case.parameter.level=8, runs.within=0.02; values as in TOML. configs/README.md lists the keys.",
    ),
]
"""Keys of a study that are given by themselves."""


def required(sources: Sequence[Path], what: str) -> Sequence[Path]:
    """Return the sources, or refuse if there is none of ``what``."""
    if not sources:
        raise DataError(f"expected at least one {what}, found none; precice-lb --help names the commands")
    return sources


def coupling_from(measurements: Measurements, coupling: str | None = None, runs: Sequence[CoupledRun] = ()) -> Schedule:
    """Take the coupling from the option (of recorded ``runs``), else from their configuration, else parallel."""
    from precice_lb.case import parse_configuration, read_configuration
    from precice_lb.recommend import traced_schedule
    from precice_lb.schedule import Schedule

    names = list(measurements.samples)
    if coupling == "serial":
        return Schedule.serial(names)
    if coupling == "parallel" or (coupling is None and measurements.configuration is None):
        return Schedule.parallel(names)
    if coupling == "traces":
        if not runs:
            raise DataError("--coupling traces: expected recorded runs, found tables alone; give directories of stores")
        return traced_schedule(runs)
    if coupling is None:
        configuration = parse_configuration(measurements.configuration or "")
    elif Path(coupling).exists():
        configuration = read_configuration(Path(coupling))
    else:
        raise DataError(
            f"--coupling: expected parallel, serial, traces or a precice-config.xml, found no file {coupling}"
        )
    return Schedule.from_config(configuration, measurements.iterations, measurements.overhead)


def preference(text: str) -> Prefer:
    """Read ``time``, ``cost`` or the weight of time between 0 and 1."""
    words: dict[str, Prefer] = {"time": "time", "cost": "cost"}
    if text in words:
        return words[text]
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= 1:
        raise DataError(f"--prefer: expected time, cost or the weight of time from 0 to 1, found {text!r}")
    return weight


def by_participant(
    texts: Sequence[str], names: Sequence[str], option: str, kind: Callable[[Any], float], *, for_all: bool = False
) -> Any:
    """Read ``Inner=2,Outer=4`` or a JSON object, given once or several times; ``for_all`` allows one number alone."""
    if for_all and len(texts) == 1 and texts[0].strip()[:1].isdigit():
        return by_participant([f"{names[0]}={texts[0]}"], names, option, kind)[names[0]]

    def number(name: str, value: Any) -> float:
        found = kind(value)
        if not (math.isfinite(found) and found > 0):
            raise ValueError(value)
        return found

    wanted = "a whole number" if kind is int else "a number"
    expected = f"participant={wanted} above 0 for each participant, such as {names[0]}=2"
    return named_values(texts, option, expected, number, participants=names)


def named_values(
    texts: Sequence[str],
    option: str,
    expected: str,
    read: Callable[[str, Any], Any],
    *,
    remedy: str = "",
    participants: Sequence[str] | None = None,
    single: bool = False,
) -> dict[str, Any]:
    """Read ``a=1,b=2`` (``single``: one pair) or a JSON object, given once or several times, each value by ``read``."""
    values: dict[str, Any] = {}
    for text in texts:
        try:
            if text.lstrip().startswith("{"):
                pairs = [(str(name), value) for name, value in json.loads(text).items()]
            else:
                parts = [text.partition("=")] if single else [part.rpartition("=") for part in text.split(",")]
                pairs = [(name, value.strip()) for name, _, value in parts]
            for name, value in pairs:
                if not name.strip() or value == "":
                    raise ValueError(name)
                if name.strip() in values:
                    raise DataError(f"{option}: expected each name once, found {name.strip()!r} twice")
                values[name.strip()] = read(name.strip(), value)
        except InfeasibleError as error:
            raise DataError(f"{option}: {error}") from error
        except (ValueError, TypeError, AttributeError):
            raise DataError(f"{option}: expected {expected}, found {text!r}{remedy}") from None
    unknown = [] if participants is None else [name for name in values if name not in participants]
    if unknown:
        known = list(participants or ())
        raise DataError(
            f"{option}: expected one of the participants {', '.join(known)}, found {unknown[0]!r}"
            f"{close_match(unknown[0], known)}"
        )
    return values
