"""What is coupled and where it may run: preCICE's configuration, machine, and tables of a study."""

from __future__ import annotations

from precice_lb.case.config import Configuration, parse_configuration, read_configuration
from precice_lb.case.coupling import AcceptedRanks, accepted_ranks
from precice_lb.case.edits import patch_configuration
from precice_lb.rooms import lazily

__all__ = [
    "AcceptedRanks",
    "Configuration",
    "accepted_ranks",
    "parse_configuration",
    "patch_configuration",
    "read_configuration",
]

__getattr__ = lazily(__name__, case=("case_from",), config=("M2N",), coupling=("RankBound", "Roles", "roles_of"))
