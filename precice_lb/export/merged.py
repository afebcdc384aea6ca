"""One file per participant in place of one per rank, as a copy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from precice_lb.exceptions import DataError, StoreError
from precice_lb.ingest.profiling import enrich
from precice_lb.store.merged import merged_image
from precice_lb.store.rank_file import writing_problem
from precice_lb.store.reader import group_ranks, read_stores
from precice_lb.store.schema import merged_filename


def export_merged(sources: Sequence[str | Path], directory: str | Path, *, force: bool = False) -> list[Path]:
    """Copy the ranks of each participant and run into one file, with mapping and wait from preCICE's profiling files.

    Nothing is removed. Beside its rank files a merged file counts once, and is what is read.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    directory : path
        Where to write, with the same directories below it as the stores have below the one that all are in.
    force : bool
        Whether to copy also what looks as if it were still being written.

    Returns
    -------
    list of Path
        The merged files. The ranks of one participant at a time are in memory.

    Raises
    ------
    StoreError
        If a source holds no store, a file cannot be read as one, or one is still being written: then nothing is copied.
    DataError
        If a file cannot be written.
    """
    groups = group_ranks(read_stores(sources))
    for group in groups:
        problem = None if force else next(filter(None, map(writing_problem, group)), None)
        if problem is not None:
            raise StoreError(
                f"{group[0].path}: expected participant {group[0].metadata['participant']!r} to have ended, found "
                f"that {problem}; export when the run has ended, or with --force if you know that it is over"
            )
    root = os.path.commonpath([group[0].directory for group in groups])
    written: list[Path] = []
    for group in groups:
        place = Path(directory) / group[0].directory.relative_to(root)
        participant, size = group[0].metadata["participant"], group[0].metadata["size"]
        number = max(store.metadata["attempt"] for store in group)
        while (target := place / merged_filename(participant, size, number)) in written:
            number += 1
        _write(target, merged_image(enrich(group)))
        written.append(target)
    return written


def _write(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(content)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{target}: expected a file that can be written, found {error.strerror}") from error
