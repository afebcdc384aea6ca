"""Partner ranks as files: JSON, sparse HDF5, pictures and a rank order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from precice_lb.exceptions import PreciceLBError
from precice_lb.partners import partners_report, rank_order_text, read_store_meshes, write_pairs
from precice_lb.report.documents import json_text, write_files

if TYPE_CHECKING:
    from precice_lb.partners import PartnersReport

__all__ = ["write_partners", "write_partners_beside"]


def write_partners(report: PartnersReport, directory: str | Path) -> list[Path]:
    """Write partners.json, partners.h5, a rank order and one picture per received mesh into a directory.

    Parameters
    ----------
    report
        The report.
    directory
        Where to write; made if it is not there.

    Returns
    -------
    list of pathlib.Path
        The files.

    Raises
    ------
    DataError
        When the directory cannot be written to.
    """
    from precice_lb.report.figure import figure_bytes
    from precice_lb.report.partners_figure import draw_partners

    contents = {
        "partners.json": json_text(report.to_dict()).encode(),
        "MPICH_RANK_ORDER": rank_order_text(report.placement).encode(),
    }
    for found in report.links:
        figure = draw_partners(found)
        stem = quote(f"partners-{found.link.mesh}-{found.link.receiver}", safe=" ")
        contents[f"{stem}.svg"] = figure_bytes(figure, "svg")
        contents[f"{stem}.png"] = figure_bytes(figure, "png")
    written = write_files(directory, contents, "partners")
    pairs = Path(directory) / "partners.h5"
    write_pairs(report, pairs)
    return [*written, pairs]


def write_partners_beside(sources: Iterable[str | Path], split: Mapping[str, int], directory: str | Path) -> list[Path]:
    """Write the partner ranks of a recommended split beside it, where a recorded run kept its meshes.

    Parameters
    ----------
    sources
        What the recommendation rests on; directories are searched for stores with meshes.
    split
        Ranks by participant.
    directory
        Where to write.

    Returns
    -------
    list of pathlib.Path
        The files; none where no meshes were kept. A recommendation does not fail because of them: what stands in the
        way is a line on standard error.
    """
    places = [place for place in map(Path, sources) if place.is_dir() and next(place.rglob("*-*-*.npz"), None)]
    if not places:
        return []
    try:
        configuration, meshes, regions = read_store_meshes(places)
        measured = {mesh.participant: mesh.ranks for mesh in meshes.values()}
        ranks = {name: count for name, count in split.items() if measured.get(name, count) != count}
        return write_partners(partners_report(configuration, meshes, regions, ranks=ranks), directory)
    except PreciceLBError as error:
        print(f"precice-lb: partner ranks are not reported: {error}", file=sys.stderr)
        return []
