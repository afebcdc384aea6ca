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

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Literal, NamedTuple

from precice_lb.case.config import Configuration, CouplingScheme
from precice_lb.case.period import period_of
from precice_lb.exceptions import ScheduleError


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


class Program(NamedTuple):
    """The steps of one participant: once in ``initialize``, then in every period of the coupling."""

    initial: list[Operation]
    window: list[Operation]


class _Phases(NamedTuple):
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
        program = Program([step for i in (*explicit, *implicit) for step in phases[i].initial], [])
        work = [
            Operation("work", share=1.0 - sum(s.share for i in implicit for s in phases[i].second if s.kind == "work"))
        ]
        iteration = [*work, *(step for i in implicit for step in (*phases[i].first, *phases[i].second))]
        count = next((iterations[i] for i in implicit), 1)
        begin = Fraction(0)
        for end in period.steps[name]:
            # A step takes its part of the simulated time, in units of the mean step.
            share = float((end - begin) * len(period.steps[name]))
            program.window.extend(_scaled(iteration, share) * count)
            # CompositionalCouplingScheme::secondExchange: explicit schemes wait until the implicit one has converged.
            due = [i for i in explicit if end in period.scheme_ends[i]]
            program.window.extend(step for i in due for step in phases[i].first)
            program.window.extend(step for i in due for step in phases[i].second)
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


def program_variants(
    configuration: Configuration, iterations: Mapping[str, float], acceleration: Mapping[str, float]
) -> tuple[list[tuple[float, dict[str, Program]]], str, dict[str, float], dict[str, int]]:
    """Give what `precice_lb.schedule.Schedule` is made of: programs with weights, description, iterations and windows.

    What a configuration leaves open, iterations and acceleration, is measured.
    """
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
        elif not scheme.measures and scheme.max_iterations is not None:
            counts[index] = float(scheme.max_iterations)
        elif len(configuration.coupling_schemes) == 1:
            counts[index] = 1.0
        else:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected the coupling iterations per time window of "
                f"{' or '.join(scheme.participants)}, found none; several coupling schemes together need them: "
                "give a column iterations, or record runs"
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
    # The second participant, or the controller (preCICE's ``doImplicitStep``).
    accelerating = [scheme.judge for scheme in configuration.coupling_schemes if scheme.acceleration is not None]
    parts = {name: float(part) for name, part in given.items() if name in accelerating}
    for name, part in parts.items():
        if not 0.0 <= part < 1.0:
            raise ScheduleError(
                f'{configuration.path}: expected the part of its compute seconds that "{name}" accelerates for as a '
                f"number from 0 to below 1, found {part:g}"
            )
    return parts


def _describe(scheme: CouplingScheme, iterations: float | None) -> str:
    count = f" ({round(iterations, 2):g} iterations)" if iterations is not None and iterations != 1 else ""
    return f"{scheme.kind} {', '.join(scheme.participants)}{count}"
