"""Partner ranks as tables and sentences, and as files: JSON, sparse HDF5 and pictures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import PreciceLBError
from precice_lb.partners.report import partners_report, write_pairs
from precice_lb.partners.sources import meshes_of_run, ranks_of_run, run_with_meshes
from precice_lb.report.blocks import (
    Block,
    Chart,
    DefinitionList,
    Missing,
    Paragraph,
    Table,
    file_stem,
    or_dash,
    percent,
    ranks_text,
    seconds_text,
    short_names,
)
from precice_lb.report.charts import Panel, one_panel, whole_ticks
from precice_lb.report.render import attempted, write_files
from precice_lb.store.reader import stores_below
from precice_lb.text import json_text, visible

if TYPE_CHECKING:
    from precice_lb.partners import LinkPartners, PartnersReport
    from precice_lb.report.page import Evidence


# Cells of a side of the matrix, and received meshes that a page draws.
_CELLS, _DRAWN = 400, 4


def link_chart(analysis: LinkPartners, stem: str) -> Chart:
    """Draw for one received mesh which ranks are connected and how much they exchange."""
    return Chart(
        stem,
        f"Each cell is a pair of ranks of {visible(analysis.link.provider)} and {visible(analysis.link.receiver)}: "
        "grey pairs only open a connection, coloured ones exchange data.",
        one_panel(_matrix, 3.8, analysis),
    )


def _binned(
    pairs: NDArray[np.int64], shape: tuple[int, int], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    edges = [np.linspace(0, count, min(count, _CELLS) + 1) for count in shape]
    image, _, _ = np.histogram2d(pairs[:, 0], pairs[:, 1], bins=edges, weights=weights)
    return np.asarray(image.T)


def _matrix(panel: Panel, analysis: LinkPartners) -> None:
    """Draw which pairs of ranks are connected, and how much they exchange."""
    from matplotlib.colors import LogNorm

    axes = panel.axes
    provider, receiver = short_names((analysis.link.provider, analysis.link.receiver), 16).values()
    # Level 1 where what is configured is not known.
    how = _scheme(analysis.link.two_level or analysis.one_level is None)
    extent = (-0.5, analysis.ranks[0] - 0.5, analysis.ranks[1] - 0.5, -0.5)
    connected = _binned(analysis.connected, analysis.ranks) > 0
    shade = np.where(connected, 0.82, 1.0)
    axes.imshow(shade, extent=extent, cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    panel.area(f"connected in {how}", color="#D1D1D1")
    if analysis.level_2 is not None and analysis.vertices is not None and len(analysis.level_2):
        image = _binned(analysis.level_2, analysis.ranks, analysis.vertices.astype(float))
        shown = np.ma.masked_equal(image, 0)
        norm = LogNorm(max(float(shown.min()), 1), max(float(shown.max()), 10))
        drawn = axes.imshow(shown, extent=extent, cmap="viridis_r", norm=norm, aspect="auto", interpolation="nearest")
        axes.figure.colorbar(drawn, ax=axes, label="vertices exchanged (count)", shrink=0.85)
        panel.area("exchanges data (level 2)", color="#2A788E")
    axes.grid(False)
    title = f"Pairs of ranks over mesh {short_names([analysis.link.mesh], 20)[analysis.link.mesh]}"
    panel.label(title, f"rank of {provider}, the provider", f"rank of {receiver}, the receiver")
    for axis in (axes.xaxis, axes.yaxis):
        whole_ticks(axis)


def bytes_text(size: float) -> str:
    """Write a number of bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return or_dash(size, ".0f" if unit == "B" else ".3g", f" {unit}")


def _scheme(two_level: bool) -> str:
    return "two levels" if two_level else "one level"


def _count(pairs: NDArray[np.int64] | None) -> str:
    return "–" if pairs is None else str(len(pairs))


def _pairs(links: Sequence[LinkPartners]) -> Table:
    rows = []
    for analysis in links:
        pairs, two_level, data = analysis.configured, analysis.link.two_level, analysis.pair_bytes
        empty = math.nan
        if pairs is not None and analysis.level_2 is not None:
            empty = (len(pairs) - len(analysis.level_2)) / max(len(pairs), 1)
        rows.append(
            {
                "mesh": analysis.link.title,
                "ranks": f"{analysis.ranks[0]} × {analysis.ranks[1]}",
                "levels": "two" if two_level else "one",
                "pairs": _count(pairs),
                "with data": _count(analysis.level_2),
                "empty": percent(empty),
                "in the other": _count(analysis.one_level if two_level else analysis.level_1),
                "messages": f"{analysis.messages_per_window:.0f}",
                "data": bytes_text(math.nan if data is None else float(data.sum())),
            }
        )
    title = "Pairs of ranks that are connected, as configured, and what they exchange per time window"
    return Table.of(title, rows, (0, 2))


def _partners(links: Sequence[LinkPartners]) -> Table:
    rows = []
    for analysis in links:
        for side, who in enumerate((analysis.link.provider, analysis.link.receiver)):
            cells = ("–",) * 3
            if analysis.configured is not None:
                partners = analysis.partners(side, analysis.configured)
                cells = (f"{partners.mean():.1f}", str(partners.max()), str(int((partners == 0).sum())))
            busy = "–" if analysis.level_2 is None else f"{analysis.partners(side, analysis.level_2).mean():.1f}"
            rows.append((analysis.link.title, who, *cells, busy))
    header = ("mesh", "ranks of", "mean", "maximum", "without", "mean with data")
    return Table("Partners per rank, as configured", header, tuple(rows), (0, 1))


def _initialisation(links: Sequence[LinkPartners]) -> Table:
    rows = []
    for analysis in links:
        # What is configured first.
        for two_level in (analysis.link.two_level, not analysis.link.two_level):
            cost = analysis.cost[two_level]
            configured = " (configured)" if two_level == analysis.link.two_level else ""
            memory = (bytes_text(cost.primary_bytes), bytes_text(cost.rank_bytes))
            rows.append((analysis.link.title, _scheme(two_level) + configured, *memory, seconds_text(cost.seconds, 2)))
    header = ("mesh", "initialisation", "memory, primary", "memory, each rank", "start-up")
    return Table("Initialisation, by the stated cost model", header, tuple(rows), (0, 1))


def partners_notes(report: PartnersReport) -> Iterator[tuple[str, str]]:
    """Say what the tables rest on."""
    if (forecast := report.forecast) is not None:
        partitions = ", ".join(f"{mesh} by {how}" for mesh, how in forecast.partitions.items())
        yield (
            "forecast",
            f"{partitions}; for the measured ranks the same forecast misses the mean by {percent(forecast.mean_error)} "
            f"and the maximum by {percent(forecast.max_error)}",
        )
    for analysis in report.links:
        if analysis.approximated:
            text = f"no connectivity is known, so that nearest vertices stand for {', '.join(analysis.approximated)}"
            yield analysis.link.title, text
    constants = ", ".join(f"{name} {value:g}" for name, value in report.model.to_dict().items())
    yield (
        "cost model",
        f"{constants} (seconds, bytes), a core for every rank: stated, not measured, so that only the order of "
        "start-up seconds counts; --constants file=… states others",
    )


def partners_blocks(report: PartnersReport) -> list[Block]:
    """Say all of partner ranks: what is missing, tables, notes and advice."""
    return [
        *(Paragraph(f"{text[0].upper()}{text[1:]}.", "missing") for text in report.missing),
        *(_pairs(report.links), _partners(report.links), _initialisation(report.links)),
        DefinitionList(tuple(partners_notes(report))),
        *(Paragraph(text, "warning", "advice") for text in report.advice),
    ]


def write_partners(report: PartnersReport, directory: str | Path) -> list[Path]:
    """Write partners.json, partners.h5 and a picture per received mesh into a directory."""
    contents = {"partners.json": json_text(report.to_dict()).encode()}
    for analysis in report.links:
        chart = link_chart(analysis, file_stem(f"partners-{analysis.link.mesh}-{analysis.link.receiver}-pairs"))
        contents[f"{chart.name}.svg"] = chart.svg
    written = write_files(directory, contents, "partners")
    pairs = Path(directory) / "partners.h5"
    write_pairs(report, pairs)
    return [*written, pairs]


def write_beside(sources: Iterable[str | Path], split: Mapping[str, int], directory: str | Path) -> list[Path]:
    """Write the partner ranks of a recommended split beside it, where a recorded run kept its meshes."""

    def write() -> list[Path]:
        report = partners_of_split(sources, split)
        return [] if report is None else write_partners(report, directory)

    return attempted("the report of partner ranks", write) or []


def partners_of_split(sources: Iterable[str | Path], split: Mapping[str, int]) -> PartnersReport | None:
    """Report the partner ranks of a split from what recorded runs kept of their meshes.

    They are those of a recorded run with this split, or a forecast from a run that kept coordinates. Where boxes alone
    are known they are those of another recorded run; what is missing is said.
    """
    places = [place for place in map(Path, sources) if place.is_dir() and stores_below(place)]
    run = run_with_meshes(places, split) if places else None
    if run is None:
        return None
    configuration, meshes, regions = meshes_of_run(run)
    measured = ranks_of_run(run)
    others = {name: count for name, count in split.items() if measured[name] != count}
    obstacle = "there are access regions, which nobody knows for other ranks" if regions else ""
    if any(mesh.coordinates is None for mesh in meshes.values()):
        obstacle = "a forecast needs coordinates: record with PRECICE_LB_MESHES=coordinates"
    report = partners_report(configuration, meshes, regions, ranks={} if obstacle else others)
    if others and obstacle:
        text = f"partner ranks are those of the recorded {ranks_text(measured)}, not of {ranks_text(split)}: {obstacle}"
        report = dataclasses.replace(report, missing=(text, *report.missing))
    return report


def partners_section(evidence: Evidence) -> Iterator[Block]:
    """Show which ranks talk to each other at the recommended split, where a run kept its meshes."""
    try:
        report = partners_of_split(evidence.sources, evidence.recommendation.ranks)
    except PreciceLBError as error:
        raise Missing(str(error)) from error
    if report is None:
        raise Missing(
            "no run among the sources kept its meshes: record one with PRECICE_LB_MESHES=coordinates; for compiled "
            "solvers add <export:csv> to their participants, and name that directory to precice-lb partners"
        )
    for number, link in enumerate(report.links[:_DRAWN], start=1):
        yield link_chart(link, f"partners-{number}")
    yield from partners_blocks(report)


page_section = ("partners", "Partner ranks", partners_section)
