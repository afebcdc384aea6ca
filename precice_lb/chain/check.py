"""What a border of a chain does to a coupled run: what preCICE forgets, and what the configuration can keep.

A restarted preCICE begins at time 0. As trials on libprecice 3.4.1 show, data that are not initialised are zeros to who
reads them: in a serial scheme what the first participant writes is there at the end of the first time window, but
waveforms lead to it from zero; all else is zero throughout the first window of an explicit scheme, and throughout the
first iteration of an implicit one, whose later iterations still begin the window at zero. ``initialize="true"`` of one
exchange sends all data that go the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from precice_lb.plural import plural
from precice_lb.precice_xml.records import Configuration, CouplingScheme, Element, Exchange

__all__ = ["Finding", "Start", "findings", "notes", "starts"]

_EXPORTS = "export:"
_WATCHES = ("watch-point", "watch-integral")
# Windows that are reused where the file does not say.
_REUSED = {"IQN-ILS": 10, "IQN-IMVJ": 0}


@dataclass(frozen=True)
class Start:
    """How a segment begins for the data of one exchange.

    Attributes
    ----------
    scheme, exchange
        From the configuration.
    kind : {"kept", "late", "zero"}
        As its source writes it before ``initialize``; only at the end of the first window; not at all.
    text : str
        What its target reads.
    """

    scheme: CouplingScheme
    exchange: Exchange
    kind: Literal["kept", "late", "zero"]
    text: str


@dataclass(frozen=True)
class Finding:
    """Something to know of a line of the configuration."""

    line: int
    tag: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, <{self.tag}>: {self.text}"


def starts(configuration: Configuration) -> list[Start]:
    """Tell how each exchange begins a segment, in the file's order."""
    return [_start(scheme, exchange) for scheme in configuration.coupling_schemes for exchange in scheme.exchanges]


def findings(
    configuration: Configuration, *, windows: int | None = None, directories: Mapping[str, Path] | None = None
) -> list[Finding]:
    """Say what makes a chain's result another than that of one run, or loses some of it.

    Parameters
    ----------
    configuration : Configuration
        What all segments are run with.
    windows : int, optional
        Time windows of a segment, the longest ones; None where they are not known beforehand.
    directories : mapping from participant to path, optional
        Where participants run, relative to the case.

    Returns
    -------
    list of Finding
        In the order of the file.
    """
    found = [
        *(_zero(configuration, start) for start in starts(configuration) if start.kind == "zero"),
        *_cut_short(configuration, windows),
        *_outside(configuration, directories or {}),
    ]
    return sorted(found, key=lambda each: each.line)


def notes(configuration: Configuration, *, total: int | None = None) -> list[Finding]:
    """Say what else changes at a border, in the order of the file.

    Parameters
    ----------
    configuration : Configuration
        What all segments are run with.
    total : int, optional
        Time windows of the whole chain, the longest ones; None for what the configuration says.

    Returns
    -------
    list of Finding
    """
    found = [*_late(configuration), *_of_schemes(configuration), *_of_limits(configuration, total)]
    found += [
        Finding(each.line, each.tag, "begins anew, at time 0, in every segment; their directories keep one each")
        for participant in configuration.root.named("participant")
        for each in participant.named(_EXPORTS, *_WATCHES)
    ]
    return sorted(found, key=lambda each: each.line)


# --- data ----------------------------------------------------------------------------------------------------------


def _start(scheme: CouplingScheme, exchange: Exchange) -> Start:
    way = (exchange.source, exchange.target)
    initialised = [each for each in scheme.exchanges if each.initialize and (each.source, each.target) == way]
    if exchange.initialize:
        return Start(scheme, exchange, "kept", f'what "{exchange.source}" writes before initialize()')
    if initialised:
        beside = f'what "{exchange.source}" writes before initialize(), sent beside "{initialised[0].data}"'
        return Start(scheme, exchange, "kept", beside)
    if scheme.is_serial and exchange.source == scheme.participants[0]:
        return Start(scheme, exchange, "late", "zero at the start of the first window, right at its end")
    if scheme.is_implicit:
        return Start(scheme, exchange, "zero", "zero in the first iteration, and at the start of the first window")
    return Start(scheme, exchange, "zero", "zero throughout the first window")


def _zero(configuration: Configuration, start: Start) -> Finding:
    exchange = start.exchange
    source = configuration.participants[exchange.source]
    remedy = f'set initialize="true", and let "{exchange.source}" write it where requires_initial_data() asks for it'
    if any(mesh.name == exchange.mesh and mesh.api_access for mesh in source.receives):
        remedy = f'let "{exchange.source}" write it on a mesh of its own: data on one with api-access has no start'
    what = f'"{exchange.target}" reads "{exchange.data}" as {start.text} of every segment'
    return Finding(exchange.line, "exchange", f"{what}; {remedy}")


def _late(configuration: Configuration) -> Iterator[Finding]:
    for start in starts(configuration):
        if start.kind == "late":
            exchange = start.exchange
            what = f'"{exchange.target}" reads "{exchange.data}" as {start.text}'
            yield Finding(exchange.line, "exchange", f'{what}; if it reads before that, set initialize="true"')


# --- time ----------------------------------------------------------------------------------------------------------


def _pairs(configuration: Configuration) -> list[tuple[CouplingScheme, Element]]:
    return list(zip(configuration.coupling_schemes, configuration.root.named("coupling-scheme:"), strict=True))


def _longest(configuration: Configuration) -> float:
    sizes = [scheme.time_window_size for scheme in configuration.coupling_schemes if not scheme.window_size_from_first]
    return max(sizes, default=math.nan)


def _cut_short(configuration: Configuration, windows: int | None) -> Iterator[Finding]:
    """Find times at which preCICE ends before a segment does."""
    seconds = (windows or 0) * _longest(configuration)
    for scheme, element in _pairs(configuration):
        if scheme.max_time is not None and scheme.max_time < seconds * (1 - 1e-9):
            (limit,) = element.named("max-time")
            what = f"ends a segment at {scheme.max_time:g}, before its {plural(windows or 0, 'window')} of {seconds:g}"
            yield Finding(limit.line, limit.tag, f"{what}; take shorter segments, or max-time-windows in its place")


def _of_limits(configuration: Configuration, total: int | None) -> Iterator[Finding]:
    for scheme, element in _pairs(configuration):
        size = scheme.time_window_size
        if scheme.max_time is not None and abs(rest := math.remainder(scheme.max_time, size)) > 1e-9 * scheme.max_time:
            (limit,) = element.named("max-time")
            what = f"is no multiple of {size:g}: one run would cut its last window to {rest % size:g}, a chain does not"
            yield Finding(limit.line, limit.tag, what)
        needed = (total or 0) * _longest(configuration)
        for limit in element.named("max-time", "max-time-windows") if total else ():
            ends = scheme.max_time if limit.tag == "max-time" else (scheme.max_time_windows or 0) * size
            if ends is not None and abs(ends - needed) > 1e-9 * needed:
                length = "shorter" if ends < needed else "longer"
                what = f"is {length}, {ends:g}, than the {plural(total or 0, 'window')} of the chain, {needed:g}"
                yield Finding(limit.line, limit.tag, f"{what}; the chain's count decides")


# --- schemes and files ---------------------------------------------------------------------------------------------


def _of_schemes(configuration: Configuration) -> Iterator[Finding]:
    pairs = _pairs(configuration)
    for scheme, element in [pair for pair in pairs if pair[0].is_serial][:1]:
        first, second = scheme.participants
        what = f'if "{first}" leaves the loop before the last window, "{second}" waits for the next one in vain'
        yield Finding(element.line, element.tag, f"{what}: only the configuration ends a segment")
    for scheme, element in pairs:
        for acceleration in element.named("acceleration:"):
            kind = scheme.acceleration or ""
            reused = [int(each.attributes["value"]) for each in acceleration.named("time-windows-reused")]
            windows = reused[0] if reused else _REUSED.get(kind, 0)
            lost = f"what it learned in {plural(windows, 'time window')}" if windows else "its Jacobian"
            if windows or kind == "IQN-IMVJ":
                what = f"loses {lost} at every border, so the first windows may take more iterations"
                yield Finding(acceleration.line, acceleration.tag, what)


def _outside(configuration: Configuration, directories: Mapping[str, Path]) -> Iterator[Finding]:
    """Find exports that go where all segments write."""
    for participant in configuration.root.named("participant"):
        for export in participant.named(_EXPORTS):
            folder = export.attributes.get("directory", "")
            place = directories.get(participant.attributes["name"], Path()) / folder
            if place.is_absolute() or _leaves(place):
                what = f'writes to "{folder}", outside the case, where every segment overwrites the files of the last'
                yield Finding(export.line, export.tag, f"{what}; name a directory inside")


def _leaves(place: Path) -> bool:
    """Whether a relative path leads out of where it begins."""
    depth = 0
    for part in place.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False
