"""The drop-in ``Participant``, its recorder, and ``run`` for unchanged solvers.

Importing this package loads nothing: a solver sets up its threads and its MPI before it imports preCICE.
"""

from __future__ import annotations

from precice_lb.rooms import lazily

__getattr__ = lazily(__name__, meshes=("MeshNotes",), recorder=("Recorder", "flush_after"))
