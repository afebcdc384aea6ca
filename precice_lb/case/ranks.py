"""With how many ranks preCICE starts a participant: what a configuration refuses, and the line that does.

Held against preCICE 3.4.1 (``M2NConfiguration.cpp``, ``MappingConfiguration.cpp``, ``ParticipantConfiguration.cpp``),
whose other checks do not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from precice_lb.case.config import Configuration, ConfiguredParticipant
from precice_lb.text import plural

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
    accepted = {}
    for name, participant in configuration.participants.items():
        least = next(_least(configuration), RankBound(1))
        most = next(_most(configuration, participant), UNBOUND)
        if (least, most) != (RankBound(1), UNBOUND):
            accepted[name] = AcceptedRanks(least, most)
    return accepted


def _least(configuration: Configuration) -> Iterator[RankBound]:
    """Whoever reads such an m2n as a serial participant refuses, even if it is between others."""
    for m2n in configuration.m2ns:
        if m2n.use_two_level_initialization:
            place = f"{configuration.path}:{m2n.element.line}"
            why = f"two-level initialisation of {m2n.acceptor} and {m2n.connector}, {place}"
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
