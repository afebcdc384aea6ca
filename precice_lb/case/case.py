"""The case: what is coupled, on what machine, within which bounds; from a study file, ``--set`` or Python alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from precice_lb.case.machine import Constraints, Demands, MachineSection
from precice_lb.case.sections import BoundsSection, CaseSection, ChainSection, ParticipantSection, RunsSection, listed
from precice_lb.case.tables import StudySection, explain
from precice_lb.exceptions import StudyError
from precice_lb.layout import Layouts
from precice_lb.text import key_of


class Case(StudySection):
    """All that is known of a coupled simulation but what starts it: the tables of a study, each of them optional."""

    case: CaseSection = CaseSection()
    machine: MachineSection = MachineSection()
    runs: RunsSection = RunsSection()
    participants: Annotated[tuple[ParticipantSection, ...], Field(strict=False), BeforeValidator(listed)] = ()
    chain: ChainSection | None = None

    @property
    def total(self) -> int | None:
        """Ranks, or cores, of all participants together in a run; None where nothing says that."""
        machine = self.machine
        if machine.kinds:
            return machine.ranks or sum(kind.nodes * kind.cores_per_node for kind in machine.kinds)
        return machine.ranks or machine.cores or (machine.nodes or 0) * (machine.cores_per_node or 0) or None

    @property
    def degrees_of_freedom(self) -> dict[str, float]:
        """Degrees of freedom of the participants whose number is stated."""
        return {p.name: p.degrees_of_freedom for p in self.participants if p.degrees_of_freedom is not None}

    def demands(self) -> Constraints:
        """Return the machine with what participants and their versions demand of it, their bounds too."""
        maps: dict[str, Any] = {key: {} for key in (*Demands.__annotations__, "allow", "layouts", "minimum", "maximum")}
        for name, table in self.bounded():
            layouts = None if table.layouts == Layouts() else table.layouts
            values = {**dict(table), "allow": table.allow, "layouts": layouts}
            values |= {"minimum": table.minimum_ranks, "maximum": table.maximum_ranks}
            if isinstance(table, ParticipantSection) and table.command and not (table.version or self.machine.kinds):
                # Of its launcher alone.
                values["ranks_per_node"] = None
            for key, entries in maps.items():
                if values[key] is not None:
                    entries[name] = values[key]
        machine = vars(self.machine)
        if self.machine.cores or self.machine.nodes or self.machine.kinds:
            # Ranks beside these are those of runs alone.
            machine = machine | {"ranks": None}
        return Constraints(**machine, **{key: entries for key, entries in maps.items() if entries})

    def bounded(self) -> Iterator[tuple[str, BoundsSection]]:
        """Give the tables of participants and of their versions, by the names that constraints have for them."""
        for participant in self.participants:
            yield participant.name, participant
            for version in participant.versions:
                yield key_of(participant.name, version.name), version


def case_from(tables: Mapping[str, Any]) -> Case:
    """Make a case of its tables; in an error, participants have their names."""
    participants = listed(tables.get("participants", []))
    whole = {**tables, "participants": participants}
    try:
        return Case.model_validate(whole)
    except ValidationError as error:
        text = explain(error, whole, Case)
        text = re.sub(
            r"^participants\[(\d+)\]", lambda match: f"participants.{participants[int(match[1]) - 1]['name']}", text
        )
        raise StudyError(text) from None
