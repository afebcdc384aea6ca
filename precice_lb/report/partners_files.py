"""Partner ranks as files: JSON, sparse HDF5, pictures and a rank order."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from precice_lb.partners import meshes_of_run, partners_report, rank_order_text, run_with_meshes, write_pairs
from precice_lb.report.attempt import attempted
from precice_lb.report.documents import json_text, write_files
from precice_lb.report.text import file_stem, ranks_text, visible
from precice_lb.store.reader import has_stores

if TYPE_CHECKING:
    from precice_lb.partners import PartnersReport

__all__ = ["partners_of_split", "write_partners", "write_partners_beside"]


def write_partners(report: PartnersReport, directory: str | Path) -> list[Path]:
    """Write partners.json, partners.h5, a rank order and one picture per received mesh into a directory."""
    from precice_lb.report.partners_figure import draw_partners
    from precice_lb.report.style import figure_files

    contents = {
        "partners.json": json_text(report.to_dict()).encode(),
        "MPICH_RANK_ORDER": rank_order_text(report.placement).encode(),
    }
    for found in report.links:
        stem = file_stem(f"partners-{found.link.mesh}-{found.link.receiver}")
        contents |= figure_files(stem, draw_partners(found))
    written = write_files(directory, contents, "partners")
    pairs = Path(directory) / "partners.h5"
    write_pairs(report, pairs)
    return [*written, pairs]


def write_partners_beside(sources: Iterable[str | Path], split: Mapping[str, int], directory: str | Path) -> list[Path]:
    """Write the partner ranks of a recommended split beside it, where a recorded run kept its meshes."""
    return attempted("the report of partner ranks", lambda: _write_beside(sources, split, directory)) or []


def _write_beside(sources: Iterable[str | Path], split: Mapping[str, int], directory: str | Path) -> list[Path]:
    report = partners_of_split(sources, split)
    if report is None:
        return []
    for text in report.missing:
        print(f"precice-lb: {visible(text)}", file=sys.stderr)
    return write_partners(report, directory)


def partners_of_split(sources: Iterable[str | Path], split: Mapping[str, int]) -> PartnersReport | None:
    """Report the partner ranks of a split from what recorded runs kept of their meshes.

    They are those of a recorded run with this split, or a forecast from a run that kept coordinates. Where boxes alone
    are known they are those of another recorded run; what is missing is said.
    """
    places = [place for place in map(Path, sources) if place.is_dir() and has_stores(place)]
    run = run_with_meshes(places, split) if places else None
    if run is None:
        return None
    configuration, meshes, regions = meshes_of_run(run)
    measured = {str(group[0].metadata["participant"]): int(group[0].metadata["size"]) for group in run}
    unknown = [mesh.name for mesh in meshes.values() if mesh.coordinates is None]
    ranks = {name: count for name, count in split.items() if measured[name] != count}
    report = partners_report(configuration, meshes, regions, ranks={} if unknown or regions else ranks)
    if ranks and (unknown or regions):
        reason = (
            "a forecast needs coordinates: record with PRECICE_LB_MESHES=coordinates"
            if unknown
            else "there are access regions, which nobody knows for other ranks"
        )
        text = f"partner ranks are those of the recorded {ranks_text(measured)}, not of {ranks_text(split)}: {reason}"
        report = dataclasses.replace(report, missing=(text, *report.missing))
    return report
