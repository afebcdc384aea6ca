"""A small coupling backend in pure Python with preCICE's Python API, for machines without libprecice.

It reads an ordinary ``precice-config.xml`` and does what it accepts exactly as preCICE 3.4.1 does it; whatever it
cannot is refused before anything runs. It is for trying, testing and teaching, not for production.
"""

from __future__ import annotations

from precice_lb.embedded.participant import Participant
from precice_lb.embedded.timeline import CouplingError

__all__ = ["CouplingError", "Participant", "__version__", "get_version_information"]

#: Version of the Python API that this backend offers; adapters compare it with what they need.
__version__ = "3.4.0+embedded"


def get_version_information() -> bytes:
    """Return the version of preCICE that this backend follows, and that it is not preCICE."""
    return b"3.4.1;embedded backend of precice_lb"
