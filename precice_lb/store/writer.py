"""Writing the store file of one rank, in blocks and readable after a kill at any moment."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5s, h5t
from numpy.typing import NDArray

from precice_lb.store.guarded import GuardedFile
from precice_lb.store.schema import (
    ADVANCE_DTYPE,
    FORMAT,
    FORMAT_VERSION,
    INITIALIZE_DTYPE,
    SECTION_DTYPE,
    SECTION_NAME_BYTES,
    UNITS,
    encode,
    store_filename,
    validate,
)

__all__ = ["StoreWriter"]

_CHUNK_ROWS = 256
_CHUNK_NAMES = 16
# Room for the chunk that is being filled, per dataset, and for the indices of chunks, as on disk. HDF5 2.0 would take
# 8 MiB per dataset, and 32 MiB for the indices.
_CACHE_BYTES = 2**16
_INDEX_BYTES = 2**17
_NAME_DTYPE = np.dtype(f"S{SECTION_NAME_BYTES}")


@dataclass
class _Table:
    """A dataset that is appended to."""

    dataset: h5d.DatasetID
    kind: h5t.TypeID
    chunk: int
    length: int


class StoreWriter:
    """The store file of one rank.

    Parameters
    ----------
    directory : path
        The store directory; made if missing.
    metadata : mapping
        Values by key, without ``attempt``, ``finished`` and ``ended_unix_ns``, which this class sets.
    configuration : str
        Text of ``precice-config.xml``.

    Attributes
    ----------
    path : Path
        The file, of the first attempt whose name is free: nothing is ever overwritten.
    metadata : dict
        All metadata as written.

    Raises
    ------
    OSError
        If the file cannot be created or written.
    StoreError
        If the metadata are not what the registry says.
    """

    def __init__(self, directory: str | Path, metadata: Mapping[str, Any], configuration: str) -> None:
        self.metadata = {**metadata, "attempt": 1, "finished": False}
        validate(self.metadata, complete=True)
        self.path = self._attempt_path(Path(directory))
        # The name appears only once the file can be read; whoever comes second takes the next attempt.
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        self._raw = _create_in_directory(draft)
        self._rows = self._sections = self._names = 0
        self._open: dict[str, _Table] = {}
        try:
            self._file = h5py.File(self._raw, "w", rdcc_nbytes=_CACHE_BYTES)
            self._bound_metadata_cache()
            self._create(configuration)
            while not self._publish(draft):
                self.metadata["attempt"] += 1
                self.path = self._attempt_path(Path(directory))
                self._file.attrs["attempt"] = self.metadata["attempt"]
                self.flush()
        except BaseException:
            self._give_up()
            raise
        finally:
            draft.unlink(missing_ok=True)

    def write_initialize(self, row: NDArray[np.void]) -> None:
        """Write the row of ``initialize`` to disk.

        Parameters
        ----------
        row : ndarray of INITIALIZE_DTYPE, shape (1,)

        Raises
        ------
        OSError
            If it cannot be written.
        """
        table = self._file["initialize"]
        table.resize((1,))
        table[:] = row
        self.flush()

    def append(
        self, rows: NDArray[np.void], sections: NDArray[np.void] | None = None, section_names: Sequence[str] = ()
    ) -> None:
        """Append rows of ``advance`` and write them to disk.

        Parameters
        ----------
        rows : ndarray of ADVANCE_DTYPE, shape (n,)
        sections : ndarray of SECTION_DTYPE, shape (m,), optional
            Profiling sections that ended since the last call.
        section_names : sequence of str
            All names that occurred so far; earlier ones never change.

        Raises
        ------
        OSError
            If they cannot be written.
        """
        self._rows = self._extend("advances", self._rows, rows)
        if len(section_names) > self._names:
            names = [name.encode()[:SECTION_NAME_BYTES] for name in section_names[self._names :]]
            self._names = self._extend("section_names", self._names, np.array(names, dtype=_NAME_DTYPE))
        if sections is not None and len(sections):
            self._sections = self._extend("sections", self._sections, sections)
        self.flush()

    def flush(self) -> None:
        """Hand everything to the operating system.

        Raises
        ------
        OSError
            If that failed now or before.
        """
        self._file.flush()
        self._raise_failure()

    def close(self, *, finished: bool, ended_unix_ns: int) -> None:
        """Complete the metadata and close the file; it is closed too if that fails.

        Parameters
        ----------
        finished : bool
            Whether the coupling came to its end.
        ended_unix_ns : int
            Unix time in ns.

        Raises
        ------
        OSError
            If it could not be written to the end.
        """
        try:
            self.metadata.update(finished=finished, ended_unix_ns=ended_unix_ns)
            for name, rows in self._tables().items():
                self._file[name].resize((rows,))
            self._file.attrs["ended_unix_ns"] = ended_unix_ns
            self._file.attrs["finished"] = finished
        finally:
            self._give_up()
        self._raise_failure()

    def _tables(self) -> dict[str, int]:
        return {"advances": self._rows, "sections": self._sections, "section_names": self._names}

    def _extend(self, name: str, written: int, rows: NDArray[Any]) -> int:
        """Write rows after those written; return how many there are then."""
        # The high-level interface takes several times as long, and all ranks wait for the slowest.
        if name not in self._open:
            table = self._file[name]
            self._open[name] = _Table(table.id, h5t.py_create(table.dtype), table.chunks[0], len(table))
        table = self._open[name]
        end = written + len(rows)
        if end > table.length:
            # Whole chunks of zeros first: most appends then change no structure of the file, only data in place.
            table.length = -(-end // table.chunk) * table.chunk
            table.dataset.set_extent((table.length,))
        space = table.dataset.get_space()
        space.select_hyperslab((written,), (len(rows),))
        table.dataset.write(h5s.create_simple((len(rows),)), space, np.ascontiguousarray(rows), table.kind)
        return end

    def _bound_metadata_cache(self) -> None:
        """Keep memory constant however long the run is."""
        bounds = self._file.id.get_mdc_config()
        bounds.set_initial_size = True
        bounds.initial_size = bounds.min_size = bounds.max_size = _INDEX_BYTES
        self._file.id.set_mdc_config(bounds)

    def _attempt_path(self, directory: Path) -> Path:
        data = self.metadata
        path = directory / store_filename(data["participant"], data["rank"], data["size"], data["attempt"])
        while path.exists():
            data["attempt"] += 1
            path = directory / store_filename(data["participant"], data["rank"], data["size"], data["attempt"])
        return path

    def _create(self, configuration: str) -> None:
        file = self._file
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        for name, value in self.metadata.items():
            file.attrs[name] = encode(name, value)
        file.create_dataset("configuration", data=configuration, dtype=h5py.string_dtype())
        file.create_dataset("section_names", (0,), _NAME_DTYPE, maxshape=(None,), chunks=(_CHUNK_NAMES,))
        for name, dtype, chunk in (
            ("advances", ADVANCE_DTYPE, _CHUNK_ROWS),
            ("sections", SECTION_DTYPE, _CHUNK_ROWS),
            ("initialize", INITIALIZE_DTYPE, 1),
        ):
            table = file.create_dataset(name, (0,), dtype, maxshape=(None,), chunks=(chunk,))
            table.attrs["units"] = json.dumps({column: UNITS[column] for column in dtype.names or ()})
        self.flush()

    def _publish(self, draft: Path) -> bool:
        """Give the draft its name; False if another rank's file took it meanwhile."""
        try:
            os.link(draft, self.path)
        except FileExistsError:
            return False
        except OSError:
            # A file system without hard links.
            if self.path.exists():
                return False
            os.rename(draft, self.path)
        return True

    def _give_up(self) -> None:
        """Close without asking whether writing works."""
        if hasattr(self, "_file"):
            self._file.close()
        self._raw.close()

    def _raise_failure(self) -> None:
        if self._raw.failure is not None:
            raise self._raw.failure


def _create_in_directory(path: Path) -> GuardedFile:
    """Create a file and its directory, which a merge of earlier runs may just be removing."""
    with contextlib.suppress(FileNotFoundError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return GuardedFile(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return GuardedFile(path)
