"""What each participant does in one time window: work, sends and receives in preCICE's program order.

Read from the source of preCICE 3.4.1, ``src/cplscheme``: `SerialCouplingScheme`, `ParallelCouplingScheme`,
`MultiCouplingScheme` and, for participants with several schemes, `CompositionalCouplingScheme`.

Where schemes have windows of different size, preCICE lets a participant step to the next end of a window of any of its
schemes (``CompositionalCouplingScheme::getNextTimeStepMaxSize``); only the schemes whose window ends there exchange. A
scheme whose first participant sets the size exchanges at every step of that participant. Explicit windows beside
an implicit scheme have to be whole multiples of its windows: preCICE warns otherwise that the coupling is not
well-defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml.config import Configuration, CouplingScheme
from precice_lb.precice_xml.period import period_of


class Channel(NamedTuple):
    """One direction of one coupling scheme; its messages arrive in the order in which they are sent."""

    scheme: int
    source: str
    target: str


class Operation(NamedTuple):
    """One step of a program; sends never wait, receives wait for the message."""

    kind: Literal["work", "send", "receive"]
    channel: Channel | None = None
    share: float = 1.0


WORK = Operation("work")


def sends(scheme: int, name: str, others: Iterable[str]) -> list[Operation]:
    """Send to some others."""
    return [Operation("send", Channel(scheme, name, other)) for other in others]


def receives(scheme: int, name: str, others: Iterable[str]) -> list[Operation]:
    """Receive from some others."""
    return [Operation("receive", Channel(scheme, other, name)) for other in others]


@dataclass
class Program:
    """The steps of one participant: once in ``initialize``, then in every period of the coupling."""

    initial: list[Operation] = field(default_factory=list)
    window: list[Operation] = field(default_factory=list)


@dataclass(frozen=True)
class _Phases:
    """The steps of one scheme at one participant: in ``initialize`` and in the two exchanges of ``advance``."""

    initial: list[Operation]
    first: list[Operation]
    second: list[Operation]


def programs_of(
    configuration: Configuration, iterations: Mapping[int, int], acceleration: Mapping[str, float] | None = None
) -> dict[str, Program]:
    """Unroll what each participant does in one period."""
    schemes = configuration.coupling_schemes
    period = period_of(configuration)
    programs = {}
    for name in configuration.participants:
        own = [index for index, scheme in enumerate(schemes) if name in scheme.participants]
        part = (acceleration or {}).get(name, 0.0)
        phases = {index: _phases(schemes[index], index, name, part) for index in own}
        implicit = [i for i in own if schemes[i].is_implicit]
        explicit = [i for i in own if not schemes[i].is_implicit]
        # CompositionalCouplingScheme::allSchemes: explicit schemes first.
        program = Program([step for i in (*explicit, *implicit) for step in phases[i].initial])
        work = [
            Operation("work", share=1.0 - sum(s.share for i in implicit for s in phases[i].second if s.kind == "work"))
        ]
        iteration = [*work, *(step for i in implicit for step in (*phases[i].first, *phases[i].second))]
        count = next((iterations[i] for i in implicit), 1)
        begin = Fraction(0)
        for end in period.steps[name]:
            # A step takes its part of the simulated time, in units of the mean step.
            share = float((end - begin) * len(period.steps[name]))
            program.window += _scaled(iteration, share) * count
            # CompositionalCouplingScheme::secondExchange: explicit schemes wait until the implicit one has converged.
            due = [i for i in explicit if end in period.scheme_ends[i]]
            program.window += [step for i in due for step in phases[i].first]
            program.window += [step for i in due for step in phases[i].second]
            begin = end
        programs[name] = program
    return programs


def _scaled(steps: Iterable[Operation], share: float) -> list[Operation]:
    return [step._replace(share=step.share * share) if step.kind == "work" else step for step in steps]


def parallel_programs(names: Sequence[str]) -> dict[str, Program]:
    """All participants at once, everyone exchanging with everyone at the end of the window."""
    _check_names(names)
    programs = {}
    for name in names:
        others = [other for other in names if other != name]
        programs[name] = Program([], [WORK, *sends(0, name, others), *receives(0, name, others)])
    return programs


def serial_programs(names: Sequence[str]) -> dict[str, Program]:
    """One participant after the other, the last one handing back to the first."""
    _check_names(names)
    programs = {}
    for index, name in enumerate(names):
        if len(names) == 1:
            return {name: Program([], [WORK])}
        send, receive = sends(0, name, [names[(index + 1) % len(names)]]), receives(0, name, [names[index - 1]])
        programs[name] = Program(receive if index else [], [WORK, *send, *receive])
    return programs


def _check_names(names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise ScheduleError(f"expected different names of participants, found {', '.join(names) or 'none'}")


def _phases(scheme: CouplingScheme, index: int, name: str, acceleration: float) -> _Phases:
    data = {(e.source, e.target) for e in scheme.exchanges}
    initialized = {(e.source, e.target) for e in scheme.exchanges if e.initialize}
    leads = _leads(scheme, name)
    partners = [other for other in scheme.participants if other != name]

    def speaks(source: str, target: str) -> bool:
        """Whether a message goes from source to target in every iteration."""
        convergence = scheme.is_implicit and not _leads(scheme, source) and _leads(scheme, target)
        size = scheme.window_size_from_first and _leads(scheme, source)
        return (source, target) in data or convergence or size

    send = sends(index, name, [other for other in partners if speaks(name, other)])
    receive = receives(index, name, [other for other in partners if speaks(other, name)])
    send_initial = sends(index, name, [other for other in partners if (name, other) in initialized])
    receive_initial = receives(index, name, [other for other in partners if (other, name) in initialized])
    if scheme.is_serial:
        # exchangeInitialData: the second participant already receives the end of the first's first window.
        initial = receive_initial + send_initial if leads else send_initial + receive_initial + receive
        return _Phases(initial, send, receive)
    if leads:
        return _Phases(send_initial + receive_initial, send, receive)
    accelerate = [Operation("work", share=acceleration)] if scheme.is_implicit and acceleration else []
    return _Phases(receive_initial + send_initial, receive, accelerate + send)


def _leads(scheme: CouplingScheme, name: str) -> bool:
    """Whether preCICE's ``doesFirstStep`` holds: the first participant, or in multi all but the controller."""
    return name != scheme.controller if scheme.kind == "multi" else name == scheme.participants[0]


def check_supported(configuration: Configuration) -> None:
    """Refuse couplings that have no schedule."""
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
