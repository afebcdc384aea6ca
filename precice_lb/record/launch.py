"""An id that all ranks of one launch of a participant store, made by rank 0, so that readers know who ran together."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_BYTES = 32
# To see the last bytes of a broadcast that every rank has begun long before; two seconds at most.
_ATTEMPTS = 4000

Settle = Callable[[], "str | None"]


def launch_id(metadata: Mapping[str, Any], directory: Path, communicator: Any) -> tuple[str | None, Settle]:
    """Begin to share an id; return it where it is known at once, and a call that returns it after ``initialize``.

    When ``initialize`` returns, all ranks have come here. No broadcast is waited for without end: a rank that is not
    recorded takes no part in it. Without a communicator of all ranks rank 0 leaves a file in the store directory,
    named after what only one coupling at a time can have.
    """
    rank, size = metadata["rank"], metadata["size"]
    made = os.urandom(_BYTES // 2).hex() if rank == 0 else None
    if size == 1:
        return made, lambda: made
    shared = common_communicator(communicator, rank, size)
    if shared is not None:
        buffer = bytearray(made.encode() if made else _BYTES)
        request = shared.Ibcast(buffer, root=0)
        return made, lambda: _received(request, buffer)
    what = (metadata["participant"], size, metadata["configuration_hash"], metadata["working_directory"])
    path = directory / f".{hashlib.sha256(repr(what).encode()).hexdigest()[:16]}.launch"
    if made is not None:
        directory.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(made)
        draft.replace(path)
    return made, lambda: made or _read(path)


def common_communicator(given: Any, rank: int, size: int) -> Any | None:
    """Find the communicator of all ranks of a participant, in their order; None where mpi4py has none."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    communicator = mpi.COMM_WORLD if given is None else given
    try:
        fits = communicator.Get_size() == size and communicator.Get_rank() == rank
    except (AttributeError, mpi.Exception):
        return None
    return communicator if fits else None


def _received(request: Any, buffer: bytearray) -> str | None:
    for attempt in range(_ATTEMPTS):
        if request.Test():
            return buffer.decode()
        # The first ones cost no time: all ranks have begun it.
        time.sleep(0.001 * (attempt >= _ATTEMPTS // 2))
    return None


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = path.read_text()
        return text if len(text) == _BYTES else None
    return None
