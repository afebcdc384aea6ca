"""What each participant does in one time window: work, sends and receives in preCICE's program order.

Read from the source of preCICE 3.4.1, ``src/cplscheme``: `SerialCouplingScheme`, `ParallelCouplingScheme`,
`MultiCouplingScheme` and, for participants with several schemes, `CompositionalCouplingScheme`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml import Configuration, CouplingScheme

__all__ = ["Channel", "Operation", "Program", "parallel_programs", "programs_of", "serial_programs"]


class Channel(NamedTuple):
    """One direction of one coupling scheme; its messages arrive in the order in which they are sent."""

    scheme: int
    source: str
    target: str


class Operation(NamedTuple):
    """One step of a program; work takes the participant's own cost, sends never wait, receives wait for the message."""

    kind: Literal["work", "send", "receive"]
    channel: Channel | None = None


WORK = Operation("work")


@dataclass
class Program:
    """The steps of one participant: once in ``initialize``, then in every time window."""

    initial: list[Operation] = field(default_factory=list)
    window: list[Operation] = field(default_factory=list)


@dataclass(frozen=True)
class _Phases:
    """The steps of one scheme at one participant: in ``initialize`` and in the two exchanges of ``advance``.

    The second participant of a serial scheme always receives in the second exchange: for the next iteration, or, once
    converged, for the next window. The order of messages is the same.
    """

    initial: list[Operation]
    first: list[Operation]
    second: list[Operation]


def programs_of(configuration: Configuration, iterations: Mapping[int, int]) -> dict[str, Program]:
    """Unroll what each participant does in one time window.

    Parameters
    ----------
    configuration
        The coupling.
    iterations
        Coupling iterations per time window of each implicit scheme, by its index in the file.

    Returns
    -------
    dict
        A program for each participant that is coupled.
    """
    schemes = configuration.coupling_schemes
    programs = {}
    for name in configuration.participants:
        own = [index for index, scheme in enumerate(schemes) if name in scheme.participants]
        phases = {index: _phases(schemes[index], index, name) for index in own}
        implicit = [phases[i] for i in own if schemes[i].is_implicit]
        explicit = [phases[i] for i in own if not schemes[i].is_implicit]
        # CompositionalCouplingScheme::allSchemes: explicit schemes first.
        initial = [step for phase in (*explicit, *implicit) for step in phase.initial]
        catch_up = [step for phase in explicit for step in phase.first]
        catch_up += [step for phase in explicit for step in phase.second]
        count = next((iterations[i] for i in own if schemes[i].is_implicit), 1)
        iteration = [WORK, *(step for phase in implicit for step in (*phase.first, *phase.second))]
        # CompositionalCouplingScheme::secondExchange: explicit schemes wait until the implicit one has converged.
        programs[name] = Program(initial, iteration * count + catch_up)
    return programs


def parallel_programs(names: Sequence[str]) -> dict[str, Program]:
    """All participants at once, everyone exchanging with everyone at the end of the window."""
    programs = {}
    for name in names:
        others = [other for other in names if other != name]
        sends = [Operation("send", Channel(0, name, other)) for other in others]
        receives = [Operation("receive", Channel(0, other, name)) for other in others]
        programs[name] = Program([], [WORK, *sends, *receives])
    return programs


def serial_programs(names: Sequence[str]) -> dict[str, Program]:
    """One participant after the other, the last one handing back to the first."""
    programs = {}
    for index, name in enumerate(names):
        before, behind = names[index - 1], names[(index + 1) % len(names)]
        if len(names) == 1:
            programs[name] = Program([], [WORK])
            continue
        receive = Operation("receive", Channel(0, before, name))
        send = Operation("send", Channel(0, name, behind))
        programs[name] = Program([receive] if index else [], [WORK, send, receive])
    return programs


def _phases(scheme: CouplingScheme, index: int, name: str) -> _Phases:
    data = {(e.source, e.target) for e in scheme.exchanges}
    initialized = {(e.source, e.target) for e in scheme.exchanges if e.initialize}
    leads = _leads(scheme, name)
    partners = [other for other in scheme.participants if other != name]

    def speaks(source: str, target: str) -> bool:
        """Whether a message goes from source to target in every iteration."""
        convergence = scheme.is_implicit and not _leads(scheme, source) and _leads(scheme, target)
        size = scheme.window_size_from_first and _leads(scheme, source)
        return (source, target) in data or convergence or size

    def sends(pairs: Sequence[str]) -> list[Operation]:
        return [Operation("send", Channel(index, name, other)) for other in pairs]

    def receives(pairs: Sequence[str]) -> list[Operation]:
        return [Operation("receive", Channel(index, other, name)) for other in pairs]

    send = sends([other for other in partners if speaks(name, other)])
    receive = receives([other for other in partners if speaks(other, name)])
    send_initial = sends([other for other in partners if (name, other) in initialized])
    receive_initial = receives([other for other in partners if (other, name) in initialized])
    if scheme.is_serial:
        # exchangeInitialData: the second participant already receives the end of the first's first window.
        initial = receive_initial + send_initial if leads else send_initial + receive_initial + receive
        return _Phases(initial, send, receive)
    if leads:
        return _Phases(send_initial + receive_initial, send, receive)
    return _Phases(receive_initial + send_initial, receive, send)


def _leads(scheme: CouplingScheme, name: str) -> bool:
    """Whether preCICE's ``doesFirstStep`` holds: the first participant, or in multi all but the controller."""
    return name != scheme.controller if scheme.kind == "multi" else name == scheme.participants[0]


def check_supported(configuration: Configuration) -> None:
    """Refuse couplings that have no schedule.

    Raises
    ------
    ScheduleError
        If a participant is not coupled, has two implicit schemes, or time windows of different size.
    """
    schemes = configuration.coupling_schemes
    for name, participant in configuration.participants.items():
        own = [scheme for scheme in schemes if name in scheme.participants]
        place = f"{configuration.path}:{participant.line}"
        if not own:
            raise ScheduleError(
                f'{place}: expected a coupling scheme for participant "{name}", found none; '
                "add one or remove the participant"
            )
        if sum(scheme.is_implicit for scheme in own) > 1:
            raise ScheduleError(
                f'{place}: expected at most one implicit coupling scheme for participant "{name}", found several; '
                "use a multi scheme as preCICE demands"
            )
        sizes = {scheme.time_window_size for scheme in own if not scheme.window_size_from_first}
        if sizes and max(sizes) - min(sizes) > 1e-9 * max(sizes):
            found = ", ".join(f"{size:g}" for size in sorted(sizes))
            raise ScheduleError(
                f'{place}: expected time windows of one size for participant "{name}", found {found}; '
                "give its coupling schemes the same time-window-size"
            )
