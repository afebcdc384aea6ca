"""What ``precice-config.xml`` says, and patched copies of it."""

from __future__ import annotations

from precice_lb.precice_xml.fields import is_true
from precice_lb.precice_xml.patch import patch_configuration
from precice_lb.precice_xml.reader import parse_configuration, read_configuration
from precice_lb.precice_xml.records import (
    M2N,
    Configuration,
    CouplingScheme,
    Data,
    Element,
    Exchange,
    Mapping,
    Mesh,
    Participant,
    ReceivedMesh,
)

__all__ = [
    "M2N",
    "Configuration",
    "CouplingScheme",
    "Data",
    "Element",
    "Exchange",
    "Mapping",
    "Mesh",
    "Participant",
    "ReceivedMesh",
    "is_true",
    "parse_configuration",
    "patch_configuration",
    "read_configuration",
]
