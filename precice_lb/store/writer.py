"""Writing the store of one rank: a spool while it runs, readable after a kill at any moment, HDF5 when it has ended."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.files import publish
from precice_lb.store.metadata import validate
from precice_lb.store.records import RecordedMeshes
from precice_lb.store.schema import NAME_BYTES, SPOOL_SUFFIX, store_filename
from precice_lb.store.spool import Spool, block, end_block, head_block, read_spool

# Whose code the recorder runs; a signal handler is none of theirs.
_RECORDING = frozenset({"precice_lb", "numpy", "h5py", "cyprecice", "precice", "sklearn", "scipy", "joblib"})


class StoreWriter:
    """The store of one rank, of the first attempt whose name is free: nothing is ever overwritten.

    ``attempt``, ``finished`` and ``ended_unix_ns`` are set here; ``keep_spool`` leaves the spool at the end.
    """

    def __init__(
        self, directory: str | Path, metadata: Mapping[str, Any], configuration: str, *, keep_spool: bool = False
    ) -> None:
        self.metadata = {**metadata, "attempt": 1, "finished": False}
        validate(self.metadata, complete=True)
        self._directory, self._keep_spool = Path(directory), keep_spool
        self._named = {"section_names": 0, "guess_names": 0, "count_names": 0}
        self.path = self._free_path()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The name appears only once the file can be read; whoever comes second takes the next attempt.
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        self._spool = Spool(draft)
        try:
            self._spool.append(head_block(self.metadata, configuration))
            while not publish(draft, self.path):
                self.metadata["attempt"] += 1
                self.path = self._free_path()
                self._spool.rewrite(head_block(self.metadata, configuration))
        except BaseException:
            self._spool.close()
            raise
        finally:
            draft.unlink(missing_ok=True)

    def write_meshes(self, meshes: RecordedMeshes) -> None:
        """Write what the rank said about its meshes to disk, once."""
        self._spool.append(b"".join(block(name, rows) for name, rows in meshes.arrays().items() if len(rows)))

    def write_initialize(self, row: NDArray[np.void]) -> None:
        """Write the row of ``initialize`` to disk."""
        self._spool.append(block("initialize", row))

    def append(
        self,
        rows: NDArray[np.void],
        sections: NDArray[np.void] | None = None,
        section_names: Sequence[str] = (),
        guesses: NDArray[np.void] | None = None,
        guess_names: Sequence[str] = (),
        counts: NDArray[np.void] | None = None,
        count_names: Sequence[str] = (),
        mpi: NDArray[np.void] | None = None,
        cpu: NDArray[np.void] | None = None,
    ) -> None:
        """Append rows of ``advance`` and of other tables, with all of their names so far, by one system call."""
        tables = {
            "section_names": self._new_names("section_names", section_names),
            "sections": sections,
            "guess_names": self._new_names("guess_names", guess_names),
            "guesses": guesses,
            "count_names": self._new_names("count_names", count_names),
            "counts": counts,
            "mpi": mpi,
            "cpu": cpu,
            "advances": rows,
        }
        self._spool.append(
            b"".join(block(name, table) for name, table in tables.items() if table is not None and len(table))
        )
        self._named = {
            "section_names": len(section_names),
            "guess_names": len(guess_names),
            "count_names": len(count_names),
        }

    def _new_names(self, table: str, names: Sequence[str]) -> NDArray[np.bytes_]:
        return np.array([name.encode()[:NAME_BYTES] for name in names[self._named[table] :]], "S")

    def close(self, *, finished: bool, ended_unix_ns: int, keep_spool: bool = False) -> None:
        """Complete the metadata, close the spool, and put an HDF5 store in its place.

        Where that cannot be made, as without h5py, with a full disk, or while the interpreter ends, the spool stays:
        every reader takes both. An `OSError` says that the spool could not be written to the end, or is gone.
        """
        try:
            self.metadata.update(finished=finished, ended_unix_ns=ended_unix_ns)
            self._spool.append(end_block({"finished": finished, "ended_unix_ns": ended_unix_ns}))
        finally:
            self._spool.close()
        if not self.path.exists():
            raise FileNotFoundError("it was removed during the run")
        if not (keep_spool or self._keep_spool) and _may_load_hdf5():
            self._replace_spool()

    def _replace_spool(self) -> None:
        target = self._hdf5_path()
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            # h5py tells of other versions of HDF5 than its own, which is not for the solver's user.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from precice_lb.store.rank_file import hdf5_image

                image = hdf5_image(read_spool(self.path))
            with draft.open("xb") as file:
                file.write(image)
                file.flush()
                os.fsync(file.fileno())
            if publish(draft, target):
                self.path.unlink()
                self.path = target
        except Exception as error:
            draft.unlink(missing_ok=True)
            if raised_elsewhere(error):
                raise

    def _hdf5_path(self) -> Path:
        data = self.metadata
        return self._directory / store_filename(data["participant"], data["rank"], data["size"], data["attempt"])

    def _free_path(self) -> Path:
        """Path of the spool of the first attempt, from this one on, that nobody has."""
        while (path := self._hdf5_path()).exists() or path.with_suffix(SPOOL_SUFFIX).exists():
            self.metadata["attempt"] += 1
        return path.with_suffix(SPOOL_SUFFIX)


def _may_load_hdf5() -> bool:
    """Whether h5py does no harm: not while the interpreter ends, and not beside another HDF5 than its own."""
    # Python marks its main thread as stopped before it calls what is to be called at exit. Loaded then, h5py is not
    # unloaded in time, and the process ends with a segmentation fault.
    if not threading.main_thread().is_alive():
        return False
    if "h5py" in sys.modules:
        return True
    try:
        return "libhdf5" not in Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        return True


def raised_elsewhere(error: BaseException, *packages: str) -> bool:
    """Whether code has raised an exception that recording did not call: a signal handler of the solver.

    ``packages`` are others that it did call.
    """
    names = set()
    traceback = error.__traceback__
    while traceback is not None:
        names.add(str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0])
        traceback = traceback.tb_next
    return not names <= _RECORDING | sys.stdlib_module_names | set(packages)
