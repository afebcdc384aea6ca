"""What the coupling schemes of a configuration mean for the waits of their participants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from precice_lb.dataset.participants import ParticipantTimes
from precice_lb.precice_xml.elements import is_true
from precice_lb.precice_xml.reader import root_children
from precice_lb.precice_xml.records import Element

__all__ = ["Roles", "roles_of", "settle_serial_pair", "transfer_floor"]

# Work that sums to more than a serial iteration by less than this share is noise and transfer.
HIDDEN_SHARE = 0.02


@dataclass(frozen=True)
class Roles:
    """What participants do in their coupling schemes (preCICE 3.4.1, ``cplscheme/``)."""

    # All names, in the order of the file.
    participants: tuple[str, ...]
    # Who is second in a serial scheme, and so receives the data of its first window (or iteration) inside
    # ``initialize`` and those of every later one at the end of the ``advance`` before; None without a serial scheme.
    second: frozenset[str] | None
    # First and second participant where the only scheme is a serial one.
    serial_pair: tuple[str, str] | None
    # From those that wait in every iteration of an implicit scheme with an acceleration to the one who accelerates
    # meanwhile: the second of two participants, the controller of several.
    accelerating: Mapping[str, str]


@lru_cache(maxsize=64)
def roles_of(configuration: str) -> Roles:
    """Find who does what, of anything that is XML: a run may be older than the rules of today's preCICE."""
    elements = root_children(configuration)
    names = [each.attributes["name"] for each in elements if each.tag == "participant" and "name" in each.attributes]
    schemes = [each for each in elements if each.tag.startswith("coupling-scheme:")]
    pairs = [_pair(scheme) for scheme in schemes]
    serial = [
        pair for scheme, pair in zip(schemes, pairs, strict=True) if scheme.tag.split(":")[1].startswith("serial-")
    ]
    accelerating: dict[str, str] = {}
    for scheme, pair in zip(schemes, pairs, strict=True):
        members = [each.attributes for each in scheme.children if each.tag == "participant"]
        controllers = [each.get("name", "") for each in members if is_true(each.get("control", ""))]
        who = (controllers or pair or [""])[-1]
        if who and any(each.tag.startswith("acceleration:") for each in scheme.children):
            accelerating |= dict.fromkeys({*pair, *(each.get("name", "") for each in members)} - {who}, who)
    return Roles(
        participants=tuple(dict.fromkeys(names)),
        second=frozenset(pair[1] for pair in serial if pair) if serial else None,
        serial_pair=(pairs[0][0], pairs[0][1]) if len(schemes) == len(serial) == 1 and pairs[0] else None,
        accelerating=accelerating,
    )


def _pair(scheme: Element) -> list[str]:
    """First and second participant of a scheme of two; empty for one of several."""
    given = next((each.attributes for each in scheme.children if each.tag == "participants"), {})
    return [given["first"], given["second"]] if {"first", "second"} <= given.keys() else []


def transfer_floor(configuration: str, least_waits: Mapping[str, float], least_overheads: Mapping[str, float]) -> float:
    """Seconds of the least wait in an iteration: what the transfer takes where data is already there.

    While a partner accelerates it is not: what the partner spent on that at least is no transfer. In a serial scheme it
    never is, so that no wait shows the bare transfer.
    """
    roles = roles_of(configuration)
    if roles.second is not None:
        return 0.0
    waits = []
    for name, wait in least_waits.items():
        accelerating = roles.accelerating.get(name)
        delay = 0.0 if accelerating is None else least_overheads.get(accelerating, math.nan)
        waits.append(wait - delay)
    return max(min(filter(math.isfinite, waits), default=0.0), 0.0)


def settle_serial_pair(first: ParticipantTimes, second: ParticipantTimes) -> float:
    """Let the work of two participants of a serial scheme sum to their iterations; return the seconds of one transfer.

    While one of them works, the other one does nothing but wait. What the wait lasts longer than that work is transfer.
    Where they share a core it lasts shorter: the one that sends is put aside as soon as its partner wakes up, so that
    its wait hides in ``waitAndSendData`` and looks like overhead. It is seen by what cannot be, work that sums to more
    than the iteration; what is too much is taken off the overhead of both, in proportion, never more than there is, and
    counts as waiting.
    """
    if not np.array_equal(first.layout.iterations, second.layout.iterations):
        return 0.0
    # The first participant waits for the second one's work of the same iteration.
    excess = second.busy - first.wait
    steady = first.steady & np.isfinite(excess)
    if not steady.any():
        return 0.0
    typical = float(np.median(excess[steady]))
    if not typical > HIDDEN_SHARE * float(np.median((first.busy + first.wait)[steady])):
        return max(-typical, 0.0) / 2
    both = first.overhead + second.overhead
    share = np.divide(np.clip(excess, 0.0, both), both, out=np.zeros_like(both), where=both > 0)
    for times in (first, second):
        times.hide(np.where(np.isfinite(share), share, 0.0) * np.nan_to_num(times.overhead))
    return 0.0
