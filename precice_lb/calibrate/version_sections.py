"""The tables of a study that say of what versions and kinds of nodes there are."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from precice_lb.names import checked_name
from precice_lb.split import NodeKind

_Text = Annotated[str, Field(min_length=1)]
_Options = Annotated[tuple[Annotated[str, Field(pattern=r"^-[^\s#]")], ...], Field(strict=False)]
_OneOrMore = Annotated[int, Field(ge=1)]


class VersionSection(BaseModel):
    """``[[participants.versions]]``: one of several programs that may be a participant, such as one on GPUs.

    ``options``, ``prepare`` and ``environment`` are added to those of the participant.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, BeforeValidator(lambda name: checked_name(name, "version"))]
    command: _Text
    gpus_per_rank: Annotated[int, Field(ge=0)] = 0
    ranks_per_node: _OneOrMore | None = None
    kind: _Text | None = None
    options: _Options = ()
    prepare: Annotated[tuple[_Text, ...], Field(strict=False)] = ()
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}


class KindSection(BaseModel):
    """``[[budget.kinds]]``: nodes of one kind, and what Slurm is asked for to get them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, BeforeValidator(lambda name: checked_name(name, "kind of nodes"))]
    nodes: _OneOrMore
    cores_per_node: _OneOrMore
    gpus_per_node: Annotated[int, Field(ge=0)] = 0
    options: _Options = ()

    def node_kind(self) -> NodeKind:
        """Return it as the split counts it."""
        return NodeKind(self.name, self.nodes, self.cores_per_node, self.gpus_per_node)
