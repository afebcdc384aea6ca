"""Writing the store file of one rank, in blocks and readable after a kill at any moment."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.store import hdf5_messages
from precice_lb.store.append import AppendFile, Table
from precice_lb.store.initial import TABLES, InitialContents
from precice_lb.store.meshes import RecordedMeshes
from precice_lb.store.schema import SECTION_NAME_BYTES, store_filename, validate

__all__ = ["StoreWriter"]


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
        self._file = _create_in_directory(draft)
        try:
            self._write_contents(configuration)
            while not self._publish(draft):
                self.metadata["attempt"] += 1
                self.path = self._attempt_path(Path(directory))
                self._write_contents(configuration)
        except BaseException:
            self._file.close()
            raise
        finally:
            draft.unlink(missing_ok=True)
        self._tables = {
            name: Table(self._file, address, *TABLES[name]) for name, address in self._contents.tables.items()
        }

    def write_meshes(self, meshes: RecordedMeshes) -> None:
        """Write what the rank said about its meshes to disk, once.

        Parameters
        ----------
        meshes : RecordedMeshes
            Of this rank.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        for name, array in meshes.arrays().items():
            self._tables[name].append(array)
        self._file.commit()

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
        self._tables["initialize"].append(row)
        self._file.commit()

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
        names = self._tables["section_names"]
        if len(section_names) > names.rows:
            names.append(np.array([name.encode()[:SECTION_NAME_BYTES] for name in section_names[names.rows :]]))
        if sections is not None and len(sections):
            self._tables["sections"].append(sections)
        if len(rows):
            self._tables["advances"].append(rows)
        self._file.commit()

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
            self._file.change(self._contents.ended_value, struct.pack("<q", ended_unix_ns))
            self._file.change(self._contents.ended, struct.pack("<H", hdf5_messages.ATTRIBUTE))
            self._file.change(self._contents.finished, bytes([finished]))
            self._file.commit()
        finally:
            self._file.close()

    def _attempt_path(self, directory: Path) -> Path:
        data = self.metadata
        path = directory / store_filename(data["participant"], data["rank"], data["size"], data["attempt"])
        while path.exists():
            data["attempt"] += 1
            path = directory / store_filename(data["participant"], data["rank"], data["size"], data["attempt"])
        return path

    def _write_contents(self, configuration: str) -> None:
        self._contents = InitialContents(self.metadata, configuration)
        self._file.replace(self._contents.data)

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


def _create_in_directory(path: Path) -> AppendFile:
    """Create a file and its directory, which a merge of earlier runs may just be removing."""
    with contextlib.suppress(FileNotFoundError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return AppendFile(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return AppendFile(path)
