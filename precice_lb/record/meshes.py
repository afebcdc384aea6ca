"""What a rank tells preCICE about its meshes, kept in a file of its own where ``PRECICE_LB_MESHES`` asks for it.

Only the calls of the one participant that is watched are wrapped, so that nothing costs anything where it is off, and
``advance`` is left alone. The file lies beside the rank's store, with ``.npz`` for ``.h5``: per mesh ``<n>.count`` and
``<n>.box``, shape (dimensions, 2), the access region of a received one as ``<n>.region``, and with ``coordinates``
``<n>.points``; ``meshes`` lists the names, ``format_version`` is 1.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.record.notes import warn_once

__all__ = ["FORMAT_VERSION", "MeshNotes", "watch_meshes"]

FORMAT_VERSION = 1
_SETTINGS = ("boxes", "coordinates")


class MeshNotes:
    """Vertex counts, bounding boxes and access regions of one rank, and its coordinates where asked for.

    Parameters
    ----------
    keep_points : bool
        Whether to keep coordinates.
    """

    def __init__(self, keep_points: bool) -> None:
        self._keep_points = keep_points
        self._counts: dict[str, int] = {}
        self._boxes: dict[str, NDArray[np.float64]] = {}
        self._regions: dict[str, NDArray[np.float64]] = {}
        self._points: dict[str, list[NDArray[np.float64]]] = {}

    def vertices(self, mesh: Any, positions: Any) -> None:
        """Take vertices of a mesh; shape (vertices, dimensions) or (dimensions,)."""
        name = _text(mesh)
        points = np.array(positions, dtype=float, ndmin=2)
        self._counts[name] = self._counts.get(name, 0) + len(points)
        if not len(points):
            return
        low, high = points.min(axis=0), points.max(axis=0)
        box = self._boxes.get(name)
        if box is not None:
            low, high = np.minimum(low, box[:, 0]), np.maximum(high, box[:, 1])
        self._boxes[name] = np.stack([low, high], axis=1)
        if self._keep_points:
            self._points.setdefault(name, []).append(points)

    def region(self, mesh: Any, bounding_box: Any) -> None:
        """Take an access region: lower and upper bound of each dimension in turn."""
        self._regions[_text(mesh)] = np.array(bounding_box, dtype=float).reshape(-1, 2)

    def reset(self, mesh: Any) -> None:
        """Forget a mesh."""
        for kept in (self._counts, self._boxes, self._points):
            kept.pop(_text(mesh), None)

    def save(self, path: Path) -> None:
        """Write the file, under its name only once it is complete.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        names = sorted({*self._counts, *self._regions})
        arrays: dict[str, Any] = {"meshes": np.array(names, dtype=np.str_), "format_version": np.array(FORMAT_VERSION)}
        for number, name in enumerate(names):
            arrays[f"{number}.count"] = np.array(self._counts.get(name, 0))
            if name in self._boxes:
                arrays[f"{number}.box"] = self._boxes[name]
            if name in self._regions:
                arrays[f"{number}.region"] = self._regions[name]
            if name in self._points:
                arrays[f"{number}.points"] = np.concatenate(self._points[name])
        draft = path.with_name(f".{path.name}.{os.getpid()}.npz")
        try:
            np.savez(draft, **arrays)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def watch_meshes(participant: Any, kind: type, store: Path | None) -> None:
    """Keep what a participant says about its meshes, if ``PRECICE_LB_MESHES`` is set.

    Parameters
    ----------
    participant : object
        The participant; its methods are shadowed by wrapped ones.
    kind : type
        Its class, whose methods are called.
    store : Path or None
        The rank's store file; without one nothing is kept.
    """
    setting = os.environ.get("PRECICE_LB_MESHES", "")
    if not setting or store is None:
        return
    if setting not in _SETTINGS:
        warn_once(f"PRECICE_LB_MESHES is ignored: expected {' or '.join(_SETTINGS)}, found {setting!r}")
        return
    notes = MeshNotes(setting == "coordinates")
    # No cycle of references: a participant that is not finalised must end with its last name.
    weak = weakref.ref(participant)

    def wrapped(name: str, take: Callable[..., None]) -> Callable[..., Any]:
        method = getattr(kind, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(weak(), *args, **kwargs)
            try:
                take(*args, *kwargs.values())
            except Exception as error:
                warn_once(f"meshes of this run are not recorded completely: {error}")
            return result

        call.__doc__ = method.__doc__
        return call

    def initialized() -> None:
        notes.save(store.with_suffix(".npz"))

    takers: dict[str, Callable[..., None]] = {
        "set_mesh_vertex": notes.vertices,
        "set_mesh_vertices": notes.vertices,
        "set_mesh_access_region": notes.region,
        "reset_mesh": notes.reset,
        "initialize": initialized,
    }
    for name, take in takers.items():
        if hasattr(kind, name):
            setattr(participant, name, wrapped(name, take))


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
