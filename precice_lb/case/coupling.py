"""preCICE's rules of coupling schemes: who computes, sends and waits when, who receives, on how many ranks.

Read from the source of preCICE 3.4.1, ``src/cplscheme``: `SerialCouplingScheme`, `ParallelCouplingScheme`,
`MultiCouplingScheme` and, for participants with several schemes, `CompositionalCouplingScheme`.

Where schemes have windows of different size, preCICE lets a participant step to the next end of a window of any of its
schemes (``CompositionalCouplingScheme::getNextTimeStepMaxSize``); only the schemes whose window ends there exchange. A
scheme whose first participant sets the size exchanges at every step of that participant. Explicit windows beside
an implicit scheme have to be whole multiples of its windows: preCICE warns otherwise that the coupling is not
well-defined.

Held against preCICE 3.4.1 (``M2NConfiguration.cpp``, ``MappingConfiguration.cpp``, ``ParticipantConfiguration.cpp``),
whose other checks do not depend on the number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, NoReturn

from precice_lb.case.config import Configuration, ConfiguredParticipant, CouplingScheme, Exchange, parse_configuration
from precice_lb.exceptions import ConfigurationError, ScheduleError
from precice_lb.text import plural

# More steps of one participant until all windows end together are refused: the sizes are then unrelated numbers.
_MAXIMUM_STEPS = 1000


class Roles:
    """What participants do in the coupling schemes of a configuration; nothing is known of one that is None."""

    def __init__(self, configuration: Configuration | None) -> None:
        self.configuration = configuration
        self.participants = () if configuration is None else tuple(configuration.participants)
        self._schemes = () if configuration is None else configuration.coupling_schemes

    def schemes(self, participant: str) -> list[CouplingScheme]:
        """Coupling schemes that a participant takes part in, in the order of the file."""
        return [scheme for scheme in self._schemes if participant in scheme.participants]

    @cached_property
    def second(self) -> frozenset[str]:
        """Second participants of serial schemes, whose data of the first window come inside ``initialize``.

        Those of every later window, or iteration, come at the end of the ``advance`` before.
        """
        return frozenset(scheme.controller for scheme in self._schemes if scheme.is_serial)

    @property
    def serial_pair(self) -> tuple[str, ...]:
        """First and second participant where the only scheme is a serial one; else empty."""
        return self._schemes[0].participants if self.second and len(self._schemes) == 1 else ()

    @cached_property
    def never_waiting(self) -> frozenset[str]:
        """Who has explicit schemes alone, and no exchange to it."""
        targets = {exchange.target for scheme in self._schemes for exchange in scheme.exchanges}
        iterating = {name for scheme in self._schemes if scheme.is_implicit for name in scheme.participants}
        return frozenset(self.participants) - targets - iterating

    def accelerator(self, participant: str) -> str | None:
        """Who accelerates in every iteration while a participant waits, if anybody does."""
        controllers = [scheme.controller for scheme in self.schemes(participant) if scheme.acceleration is not None]
        return next((controller for controller in controllers if controller != participant), None)

    def iterates_with(self, participant: str) -> tuple[str, ...]:
        """Others of the participant's implicit schemes, who iterate alike; empty where it does not iterate."""
        schemes = [scheme for scheme in self.schemes(participant) if scheme.is_implicit]
        names = dict.fromkeys(name for scheme in schemes for name in scheme.participants)
        return tuple(name for name in names if name != participant)

    def gets_window_size(self, participant: str) -> bool:
        """Whether a partner tells the participant the size of each time window."""
        return any(scheme.window_size_from_first and participant == scheme.controller for scheme in self._schemes)

    def receives_data(self, participant: str, mesh_sizes: Mapping[str, int]) -> bool | None:
        """Whether a rank with so many vertices of its meshes waits for its partners' data; None where not known.

        It does where its part of a received mesh is not empty, and where a scheme tells all ranks something:
        convergence, the size of the time window, or the times of substeps.
        """
        if participant not in self.participants:
            return None
        schemes = self.schemes(participant)
        exchanges = [exchange for scheme in schemes for exchange in scheme.exchanges if exchange.target == participant]
        waits_for_controller = any(scheme.is_implicit and participant != scheme.controller for scheme in schemes)
        if (
            waits_for_controller
            or self.gets_window_size(participant)
            or any(exchange.substeps for exchange in exchanges)
        ):
            return True
        parts = {self._has_part(exchange, participant, mesh_sizes) for exchange in exchanges}
        return None if None in parts and True not in parts else True in parts

    def _has_part(self, exchange: Exchange, participant: str, mesh_sizes: Mapping[str, int]) -> bool | None:
        """Whether the rank holds vertices of the mesh of an exchange."""
        assert self.configuration is not None
        owner = self.configuration.participants[participant]
        meshes: set[str | None] = {exchange.mesh}
        if exchange.mesh not in owner.provides:
            # A rank keeps of a received mesh what its own vertices need in a mapping.
            touching = [m for m in owner.mappings if exchange.mesh in (m.source, m.target)]
            meshes = {m.target if m.source == exchange.mesh else m.source for m in touching}
        sizes = [mesh_sizes.get(mesh) if mesh is not None else None for mesh in meshes]
        return None if not sizes or None in sizes else any(sizes)


@lru_cache(maxsize=64)
def roles_of(text: str) -> Roles:
    """Roles in a configuration whose text was recorded, unknown where it cannot be read."""
    try:
        return Roles(parse_configuration(text))
    except ConfigurationError:
        return Roles(None)


class Period(NamedTuple):
    """The shortest simulated time at whose end the windows of all schemes end together."""

    # Simulated time that it is long; NaN where the first participants of all schemes set the size of windows.
    length: float
    # By scheme, the ends of its windows as parts of the period.
    scheme_ends: tuple[frozenset[Fraction], ...]
    # By participant, the ends of its time windows: those at which any of its schemes has one.
    steps: dict[str, tuple[Fraction, ...]]

    @property
    def windows(self) -> dict[str, int]:
        """Time windows of each participant in the period."""
        return {name: len(ends) for name, ends in self.steps.items()}


def period_of(configuration: Configuration) -> Period:
    """Find the common period of all coupling schemes; refuse couplings that have no schedule."""
    schemes, roles = configuration.coupling_schemes, Roles(configuration)
    for name in configuration.participants:
        if not (mine := roles.schemes(name)):
            _refuse(configuration, name, "a coupling scheme for", "none; add one or remove the participant")
        if sum(scheme.is_implicit for scheme in mine) > 1:
            remedy = "several; use a multi scheme as preCICE demands"
            _refuse(configuration, name, "at most one implicit coupling scheme for", remedy)
    exact = _exact([scheme.time_window_size for scheme in schemes if not scheme.window_size_from_first])
    denominator = math.lcm(*(size.denominator for size in exact.values()))
    period = Fraction(math.lcm(*(int(size * denominator) for size in exact.values())), denominator)
    # Where the first participant sizes windows, each step of it ends one.
    sizes = [period if scheme.window_size_from_first else exact[scheme.time_window_size] for scheme in schemes]
    if period / min(sizes, default=period) > _MAXIMUM_STEPS:
        several = ", ".join(f"{float(size):.12g}" for size in sorted(set(exact.values())))
        raise ScheduleError(
            f"{configuration.path}: expected time windows that end together within {_MAXIMUM_STEPS} steps, found sizes "
            f"{several}; give the coupling schemes time-window-sizes that are simple multiples of each other"
        )
    ends = [frozenset(k * size / period for k in range(1, int(period / size) + 1)) for size in sizes]

    def steps_of(name: str) -> frozenset[Fraction]:
        parts = (part for part, scheme in zip(ends, schemes, strict=True) if name in scheme.participants)
        return frozenset().union(*parts)

    # Schemes of method first-participant exchange at every step of their first participant.
    before: list[frozenset[Fraction]] = []
    while before != ends:
        before = list(ends)
        for index, scheme in enumerate(schemes):
            if scheme.window_size_from_first:
                ends[index] = steps_of(scheme.participants[0])
    steps = {name: tuple(sorted(steps_of(name))) for name in configuration.participants}
    for index, scheme in enumerate(schemes):
        for name in scheme.participants if scheme.is_implicit else ():
            if set(steps[name]) != ends[index]:
                expected = "explicit time windows that are whole multiples of the implicit ones of"
                _refuse(configuration, name, expected, "others; change their time-window-size")
    return Period(float(period) if exact else math.nan, tuple(ends), steps)


def _refuse(configuration: Configuration, participant: str, expected: str, problem: str) -> NoReturn:
    place = f"{configuration.path}:{configuration.participants[participant].line}"
    raise ScheduleError(f'{place}: expected {expected} participant "{participant}", found {problem}')


def _exact(sizes: list[float]) -> dict[float, Fraction]:
    """Sizes as written; what differs by rounding alone counts as equal."""
    exact: dict[float, Fraction] = {}
    for size in sorted(sizes):
        last = max(exact, default=None)
        exact[size] = exact[last] if last is not None and size - last <= 1e-9 * size else Fraction(repr(size))
    return exact


class Direction(NamedTuple):
    """One direction of one coupling scheme; its messages arrive in the order in which they are sent."""

    scheme: int
    source: str
    target: str


class Operation(NamedTuple):
    """One step of a program; sends never wait, receives wait for the message."""

    kind: Literal["work", "send", "receive"]
    channel: Direction | None = None
    share: float = 1.0


def sends(scheme: int, name: str, others: Iterable[str]) -> list[Operation]:
    """Send to some others."""
    return [Operation("send", Direction(scheme, name, other)) for other in others]


def receives(scheme: int, name: str, others: Iterable[str]) -> list[Operation]:
    """Receive from some others."""
    return [Operation("receive", Direction(scheme, other, name)) for other in others]


class Program(NamedTuple):
    """The steps of one participant: once in ``initialize``, then in every period of the coupling."""

    initial: list[Operation]
    window: list[Operation]


def programs_of(
    configuration: Configuration, iterations: Mapping[int, int], acceleration: Mapping[str, float] | None = None
) -> dict[str, Program]:
    """Unroll what each participant does in one period, in preCICE's program order.

    Given are the coupling iterations of each implicit scheme, by its index, and the part of its seconds that a
    participant accelerates for.
    """
    schemes = configuration.coupling_schemes
    period = period_of(configuration)
    programs = {}
    for name in configuration.participants:
        part = (acceleration or {}).get(name, 0.0)
        phases = {i: _phases(scheme, i, name, part) for i, scheme in enumerate(schemes) if name in scheme.participants}
        implicit = [i for i in phases if schemes[i].is_implicit]
        explicit = [i for i in phases if not schemes[i].is_implicit]
        # CompositionalCouplingScheme::allSchemes: explicit schemes first.
        program = Program([step for i in (*explicit, *implicit) for step in phases[i].initial], [])
        exchanged = [step for i in implicit for step in (*phases[i].first, *phases[i].second)]
        accelerated = sum(step.share for step in exchanged if step.kind == "work")
        iteration = [Operation("work", share=1.0 - accelerated), *exchanged]
        count = next((iterations[i] for i in implicit), 1)
        begin = Fraction(0)
        for end in period.steps[name]:
            # A step takes its part of the simulated time, in units of the mean step.
            share = float((end - begin) * len(period.steps[name]))
            program.window.extend([step._replace(share=step.share * share) for step in iteration] * count)
            # CompositionalCouplingScheme::secondExchange: explicit schemes wait until the implicit one has converged.
            due = [phases[i] for i in explicit if end in period.scheme_ends[i]]
            program.window.extend(step for phase in due for step in phase.first)
            program.window.extend(step for phase in due for step in phase.second)
            begin = end
        programs[name] = program
    return programs


class _Phases(NamedTuple):
    """The steps of one scheme at one participant: in ``initialize`` and in the two exchanges of ``advance``."""

    initial: list[Operation]
    first: list[Operation]
    second: list[Operation]


def _phases(scheme: CouplingScheme, index: int, name: str, acceleration: float) -> _Phases:
    data = {(e.source, e.target) for e in scheme.exchanges}
    initialized = {(e.source, e.target) for e in scheme.exchanges if e.initialize}
    partners = [other for other in scheme.participants if other != name]

    def speaks(source: str, target: str) -> bool:
        """Whether a message goes from source to target in every iteration."""
        convergence = scheme.is_implicit and source == scheme.controller
        size = scheme.window_size_from_first and target == scheme.controller
        return (source, target) in data or convergence or size

    send = sends(index, name, [other for other in partners if speaks(name, other)])
    receive = receives(index, name, [other for other in partners if speaks(other, name)])
    send_initial = sends(index, name, [other for other in partners if (name, other) in initialized])
    receive_initial = receives(index, name, [other for other in partners if (other, name) in initialized])
    # preCICE's ``doesFirstStep``: all but the controller.
    leads = name != scheme.controller
    if scheme.is_serial:
        # exchangeInitialData: the second participant already receives the end of the first's first window.
        initial = receive_initial + send_initial if leads else send_initial + receive_initial + receive
        return _Phases(initial, send, receive)
    if leads:
        return _Phases(send_initial + receive_initial, send, receive)
    accelerate = [Operation("work", share=acceleration)] if scheme.is_implicit and acceleration else []
    return _Phases(receive_initial + send_initial, receive, accelerate + send)


_SERIAL_KINDS = ("axial-geometric-multiscale", "radial-geometric-multiscale")
# Of a parallel participant, by direction.
_CONSTRAINTS = {"read": "consistent", "write": "conservative"}


@dataclass(frozen=True)
class RankBound:
    """Fewest or most ranks with which preCICE starts a participant.

    Attributes
    ----------
    ranks : int
        The number.
    why : str
        The rule and the line of its element: "two-level initialisation of Flow and Shell, precice-config.xml:9".
    remedy : str
        What to change there.
    """

    ranks: int
    why: str = ""
    remedy: str = ""


#: As many as MPI can number.
UNBOUND = RankBound(2**31 - 1)


@dataclass(frozen=True)
class AcceptedRanks:
    """With how many ranks preCICE starts a participant.

    Attributes
    ----------
    least, most : RankBound
        Both included.
    """

    least: RankBound = RankBound(1)
    most: RankBound = UNBOUND

    def problem(self, name: str, ranks: int) -> str:
        """Say in one line why preCICE refuses so many ranks of a participant; empty where it does not.

        Parameters
        ----------
        name : str
            The participant.
        ranks : int
            Its ranks, whatever threads they have.

        Returns
        -------
        str
        """
        if self.least.ranks <= ranks <= self.most.ranks:
            return ""
        side, bound = ("least", self.least) if ranks < self.least.ranks else ("most", self.most)
        return (
            f"expected at {side} {plural(bound.ranks, 'rank')} of {name}, found {ranks}, with which preCICE refuses to "
            f"start ({bound.why}); change the ranks, or {bound.remedy}"
        )


def accepted_ranks(configuration: Configuration) -> dict[str, AcceptedRanks]:
    """Find with how many ranks preCICE starts the participants of a configuration.

    Parameters
    ----------
    configuration : Configuration
        What ``precice-config.xml`` says.

    Returns
    -------
    dict of str to AcceptedRanks
        Of those participants that have a bound.
    """
    least = next(_least(configuration), RankBound(1))
    bounds = {
        name: AcceptedRanks(least, next(_most(configuration, participant), UNBOUND))
        for name, participant in configuration.participants.items()
    }
    return {name: accepted for name, accepted in bounds.items() if accepted != AcceptedRanks()}


def _least(configuration: Configuration) -> Iterator[RankBound]:
    """Whoever reads such an m2n as a serial participant refuses, even if it is between others."""
    for m2n in configuration.m2ns:
        if m2n.use_two_level_initialization:
            between = f"{m2n.acceptor} and {m2n.connector}, {configuration.path}:{m2n.element.line}"
            why = f"two-level initialisation of {between}"
            yield RankBound(2, why, "switch use-two-level-initialization off there")


def _most(configuration: Configuration, participant: ConfiguredParticipant) -> Iterator[RankBound]:
    for other in configuration.participants.values():
        for mapping in other.mappings:
            place = f"{configuration.path}:{mapping.element.line}"
            # Whoever reads such a mapping as a parallel participant refuses, even if it is another's.
            if mapping.kind in _SERIAL_KINDS:
                yield RankBound(1, f"mapping:{mapping.kind}, {place}", "take another mapping there")
            elif other is participant and mapping.constraint != (constraint := _CONSTRAINTS[mapping.direction]):
                why = f"{mapping.constraint} {mapping.direction} mapping, {place}"
                yield RankBound(1, why, f'take constraint="{constraint}" there, or map on the other side')
    for element in configuration.root.named("participant"):
        for export in element.named("export:vtk"):
            if element.attributes["name"] == participant.name:
                yield RankBound(1, f"export:vtk, {configuration.path}:{export.line}", "write export:vtu there")
