"""Partner ranks as files: JSON, sparse HDF5, pictures and a rank order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from precice_lb.exceptions import DataError
from precice_lb.partners import rank_order_text, write_pairs
from precice_lb.report.documents import json_text

if TYPE_CHECKING:
    from precice_lb.partners import PartnersReport

__all__ = ["write_partners"]


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

    target = Path(directory)
    contents = {
        target / "partners.json": json_text(report.to_dict()).encode(),
        target / "MPICH_RANK_ORDER": rank_order_text(report.placement).encode(),
    }
    for found in report.links:
        figure = draw_partners(found)
        stem = quote(f"partners-{found.link.mesh}-{found.link.receiver}", safe=" ")
        contents[target / f"{stem}.svg"] = figure_bytes(figure, "svg")
        contents[target / f"{stem}.png"] = figure_bytes(figure, "png")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            path.write_bytes(content)
    except OSError as error:
        raise DataError(
            f"{target}: expected a directory to write partners to, found: {error.strerror}; name another one"
        ) from error
    write_pairs(report, target / "partners.h5")
    return [*contents, target / "partners.h5"]
