"""What ``precice-config.xml`` says, and patched copies of it."""

from __future__ import annotations

from precice_lb.precice_xml.config import Configuration, parse_configuration, read_configuration
from precice_lb.precice_xml.edits import patch_configuration
from precice_lb.precice_xml.ranks import AcceptedRanks, accepted_ranks

__all__ = [
    "AcceptedRanks",
    "Configuration",
    "accepted_ranks",
    "parse_configuration",
    "patch_configuration",
    "read_configuration",
]
