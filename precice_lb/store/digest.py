"""A digest of everything that one rank recorded, the same in its own file and in a merged one."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from precice_lb.store.meshes import RecordedMeshes
from precice_lb.store.metadata import encode
from precice_lb.store.records import RankStore

__all__ = ["content_digest"]


def content_digest(store: RankStore) -> str:
    """Digest of everything that one rank recorded.

    Parameters
    ----------
    store : RankStore
        The rank, of whatever file.

    Returns
    -------
    str
        64 hexadecimal digits (SHA-256).
    """
    digest = hashlib.sha256()
    encoded = {name: encode(name, value) for name, value in store.metadata.items()}
    sections = store.sections
    names = np.array([name.encode() for name in store.section_names], dtype=bytes)
    meshes = store.meshes()
    for part in (
        json.dumps(encoded, sort_keys=True).encode(),
        store.configuration.encode("utf-8", "surrogateescape"),
        store.initialize.tobytes(),
        store.advances.tobytes(),
        *(sections[name].tobytes() for name in ("window", "begin_ns", "duration_ns")),
        b"\0".join(names[sections["name"]].tolist()),
        *_mesh_bytes(meshes),
    ):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _mesh_bytes(meshes: RecordedMeshes) -> list[bytes]:
    """Return what to digest of meshes, whatever numbers their names have; nothing where there are none."""
    if not len(meshes.rows):
        return []
    rows = meshes.rows.copy()
    rows["name"] = 0
    names = "\0".join(meshes.names[number] for number in meshes.rows["name"])
    return [names.encode(), rows.tobytes(), meshes.coordinates.tobytes(), meshes.cells.tobytes()]
