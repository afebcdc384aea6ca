"""The whole answer for a case: every received mesh, forecast for another split, and what to change, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from precice_lb.case import Configuration, accepted_ranks
from precice_lb.exceptions import DataError
from precice_lb.partners.analysis import CostModel, LinkPartners, analyse_link
from precice_lb.partners.links import Link, check_meshes, links_of, receiver_boxes
from precice_lb.partners.meshes import (
    Floats,
    Meshes,
    PartitionedMesh,
    overlapping_pairs,
    read_partition,
    repartition,
    scaled_boxes,
)
from precice_lb.text import plural

# preCICE's documentation advises two-level initialisation from thousands of ranks.
_MANY_RANKS = 1000
_THIN = 4.0
_LARGE = 3.0
_FEWER = 0.8


def advise(links: tuple[LinkPartners, ...], meshes: Meshes) -> tuple[str, ...]:
    """Say what to change, in sentences; none where there is nothing."""
    advice: list[str] = []
    received = Counter(analysis.link.mesh for analysis in links)
    for analysis in links:
        advice += _refusals(analysis, meshes)
        advice += _scheme(analysis, received[analysis.link.mesh])
        advice += _factor(analysis, meshes)
        advice += _partition(analysis, meshes)
    for mesh in meshes.values():
        empty = int((mesh.counts == 0).sum())
        if empty:
            advice.append(
                f"{empty} of {mesh.ranks} ranks of {mesh.participant} hold nothing of {mesh.name} and take no "
                "part in its exchange"
            )
    return tuple(advice)


def _refusals(analysis: LinkPartners, meshes: Meshes) -> Iterator[str]:
    """Ranks for which preCICE would stop: they have vertices, but nothing of the received mesh reaches them."""
    link = analysis.link
    if analysis.level_2 is None or not link.filtered or analysis.ranks[1] == 1:
        return
    lonely = analysis.partners(1, analysis.level_2) == 0
    busy = sum((meshes[name].counts for name in link.locals), np.zeros(analysis.ranks[1])) > 0
    ranks = np.flatnonzero(lonely & busy)
    if len(ranks):
        yield (
            f"{link.title}: preCICE will stop, as no vertex lies in the boxes of {plural(len(ranks), 'rank')} of "
            f"{link.receiver} (the first is {ranks[0]}): check that the meshes describe the same geometry, or enlarge "
            f"the safety factor {link.safety_factor:g}"
        )


def _scheme(analysis: LinkPartners, receivers: int) -> Iterator[str]:
    link = analysis.link
    one, two = analysis.cost[False], analysis.cost[True]
    many = max(analysis.ranks) >= _MANY_RANKS
    if not analysis.parallel or receivers > 1:
        if link.two_level and receivers > 1:
            refusal = "preCICE refuses it for a mesh with several receivers"
            yield f"{link.title}: switch two-level initialisation off: {refusal}"
    elif not link.two_level and many and two.seconds < one.seconds:
        yield (
            f"{link.title}: switch two-level initialisation on; it pays from thousands of ranks (about "
            f"{two.seconds:.2g} s instead of {one.seconds:.2g} s by the stated model)"
        )
    elif link.two_level and not many and one.seconds < two.seconds:
        yield (
            f"{link.title}: two-level initialisation does not pay at {sum(analysis.ranks)} ranks; it does from "
            "thousands of ranks"
        )


def _factor(analysis: LinkPartners, meshes: Meshes) -> Iterator[str]:
    link, needed = analysis.link, analysis.needed_factor
    if not np.isfinite(needed) or len(link.mappings) != 1 or not link.filtered:
        return
    # Some room for what moves; coarse steps read best.
    proposed = float(np.ceil(max(1.5 * needed, 0.01) * 20) / 20)
    if proposed >= link.safety_factor:
        return
    pairs = len(overlapping_pairs(analysis.provider_boxes, scaled_boxes(meshes[link.locals[0]].boxes, proposed)))
    if pairs <= _FEWER * len(analysis.level_1):
        yield (
            f"{link.title}: safety-factor {proposed:g} instead of {link.safety_factor:g} is enough for the mapping "
            f"({needed:.2g} is needed) and leaves {pairs} of {len(analysis.level_1)} pairs of level 1"
        )


def _partition(analysis: LinkPartners, meshes: Meshes) -> Iterator[str]:
    """Compare with recursive coordinate bisection on both sides."""
    link = analysis.link
    both = [meshes[name] for name in (link.mesh, *link.locals)]
    if len(both) != 2 or link.api_access or any(mesh.coordinates is None for mesh in both):
        return
    compact = [repartition(mesh, mesh.ranks) for mesh in both]
    boxes = [mesh.boxes[mesh.counts > 0] for mesh in compact]
    pairs = len(overlapping_pairs(boxes[0], scaled_boxes(boxes[1], link.safety_factor)))
    filled = [~np.isnan(rank_boxes[:, 0, 0]) for rank_boxes in (analysis.provider_boxes, analysis.receiver_boxes)]
    now = int((filled[0][analysis.level_1[:, 0]] & filled[1][analysis.level_1[:, 1]]).sum())
    if pairs <= _FEWER * now:
        yield (
            f"{link.title}: compact partitions (recursive coordinate bisection) would connect {pairs} pairs in level 1 "
            f"instead of {now}"
        )


def reason(analysis: LinkPartners, side: int, rank: int) -> str:
    """Say why a rank of provider (side 0) or receiver (1) has many partners: "a long thin box", for example."""
    boxes = (analysis.provider_boxes, analysis.receiver_boxes)[side]
    if np.isnan(boxes[rank]).any():
        return "an empty rank meets every empty rank"
    extents = boxes[:, :, 1] - boxes[:, :, 0]
    if side == 1 and analysis.link.mappings:
        # Without the safety margin, which hides the shape of the rank's part.
        factor = analysis.link.safety_factor
        extents = np.maximum(extents - 2 * factor / (1 + 2 * factor) * extents.max(axis=1, keepdims=True), 0.0)
    diagonal = np.linalg.norm(extents, axis=1)
    usual = float(np.nanmedian(diagonal))
    lengths = np.sort(extents[rank])[::-1]
    if usual > 0 and diagonal[rank] > _LARGE * usual:
        return f"a box {diagonal[rank] / usual:.1f} times as large as usual: its vertices are scattered"
    if lengths[0] > 0 and lengths[1] * _THIN < lengths[0]:
        return "a long thin box, whose safety margin follows its longest edge" if side else "a long thin box"
    other = (analysis.provider_boxes, analysis.receiver_boxes)[1 - side]
    theirs = float(np.nanmedian(np.linalg.norm(other[:, :, 1] - other[:, :, 0], axis=1)))
    if theirs * 1.5 < diagonal[rank]:
        partner = (analysis.link.provider, analysis.link.receiver)[1 - side]
        return f"{partner}'s boxes are smaller, so that more of them fit"
    return "large boxes or safety margins around it"


_FORMAT = "precice-lb-partners"
_FORMAT_VERSION = 1


@dataclass(frozen=True)
class Forecast:
    """How a partition for other numbers of ranks was made, and how far to trust it.

    Attributes
    ----------
    partitions : dict of str to str
        By mesh "bisection", or the file that its partition was read from.
    mean_error, max_error : float
        Relative error of mean and maximum partners per rank where the same forecast is made for the measured ranks, the
        largest of all received meshes and sides.
    """

    partitions: dict[str, str]
    mean_error: float
    max_error: float


def forecast(
    links: tuple[Link, ...],
    meshes: Meshes,
    ranks: Mapping[str, int],
    partitions: Mapping[str, str | Path],
    vertices: Mapping[str, int],
) -> tuple[dict[str, PartitionedMesh], Forecast]:
    """Partition all meshes for other numbers of ranks, by files or by bisection."""
    chosen, same, methods = {}, {}, {}
    for name, mesh in meshes.items():
        count = ranks[mesh.participant]
        if name in partitions:
            chosen[name] = read_partition(partitions[name], mesh, count)
            same[name], methods[name] = mesh, str(partitions[name])
            continue
        chosen[name] = repartition(mesh, count, vertices=vertices.get(name))
        same[name], methods[name] = repartition(mesh, mesh.ranks), "bisection"
    errors = []
    for link in links:
        truth, guess = _mean_and_most(link, meshes), _mean_and_most(link, same)
        errors.append(np.divide(np.abs(guess - truth), truth, out=(guess > 0).astype(float), where=truth > 0))
    return chosen, Forecast(methods, *np.max(errors, axis=(0, 1)).tolist())


def _mean_and_most(link: Link, meshes: Meshes) -> Floats:
    """Mean and maximum partners per rank of either side, shape (2, 2)."""
    boxes = (meshes[link.mesh].boxes, receiver_boxes(link, meshes))
    counts = [
        np.bincount(ranks, minlength=len(box)) for ranks, box in zip(overlapping_pairs(*boxes).T, boxes, strict=True)
    ]
    return np.array([(partners.mean(), partners.max()) for partners in counts])


@dataclass(frozen=True)
class PartnersReport:
    """Partner ranks of a case.

    Attributes
    ----------
    ranks : dict of str to int
        Ranks by participant, in the order of the configuration.
    links : tuple of LinkPartners
        One for each received mesh.
    meshes : dict of str to PartitionedMesh
        The meshes, as measured or forecast.
    advice : tuple of str
        What to change, in sentences.
    forecast : Forecast or None
        None where the measured partition was analysed.
    model : CostModel
        Constants of the start-up model.
    missing : tuple of str
        What is not reported, and what it needs, in sentences.
    """

    ranks: dict[str, int]
    links: tuple[LinkPartners, ...]
    meshes: dict[str, PartitionedMesh]
    advice: tuple[str, ...]
    forecast: Forecast | None
    model: CostModel
    missing: tuple[str, ...] = ()

    @property
    def model_warning(self) -> str | None:
        """What to know of start-up seconds while their model has its stated constants."""
        if not self.model.is_default:
            return None
        return (
            "start-up seconds rest on stated constants, those of a small virtual machine, and say no more than their "
            "order: --constants turn=…,file=… states others"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pairs as nested mappings for JSON; seconds and bytes."""
        return {
            "ranks": self.ranks,
            "links": [_link_dict(analysis) for analysis in self.links],
            "advice": list(self.advice),
            "missing": list(self.missing),
            "forecast": None if self.forecast is None else asdict(self.forecast),
            "cost_model": self.model.to_dict(),
            "cost_model_warning": self.model_warning,
        }


def partners_report(
    configuration: Configuration,
    meshes: Meshes,
    regions: Mapping[str, Floats] | None = None,
    *,
    ranks: Mapping[str, int] | None = None,
    partitions: Mapping[str, str | Path] | None = None,
    vertices: Mapping[str, int] | None = None,
    steps: int = 1,
    iterations: float = 1.0,
    model: CostModel | None = None,
    cores: int | None = None,
) -> PartnersReport:
    """Report the partner ranks of a case.

    Parameters
    ----------
    configuration : Configuration
        The parsed ``precice-config.xml``.
    meshes : mapping of str to PartitionedMesh
        All provided meshes by name.
    regions : mapping, optional
        Access regions by received mesh, shape (receiver ranks, dimensions, 2).
    ranks : mapping of str to int, optional
        Forecast for these ranks by participant; those of the meshes for participants that are not named.
    partitions : mapping of str to path, optional
        Partition files by mesh for the forecast; other meshes are cut by recursive coordinate bisection.
    vertices : mapping of str to int, optional
        Vertices of the meshes to come, where they are finer.
    steps : int
        Time steps of a solver per time window: an exchange with ``substeps`` sends the data at all of them and at the
        window's start.
    iterations : float
        Coupling iterations per time window.
    model : CostModel, optional
        Constants of the start-up model.
    cores : int, optional
        Cores that all ranks share at start-up; by default every rank has one.

    Returns
    -------
    PartnersReport

    Raises
    ------
    ConfigurationError, DataError
        If the configuration or the meshes do not say enough, or do not belong together.
    """
    links = links_of(configuration)
    regions = regions or {}
    counted = check_meshes(links, meshes, regions)
    for name in (*(ranks or {}), *(partitions or {}), *(vertices or {})):
        if name not in counted and name not in meshes:
            raise DataError(
                f"expected a participant or mesh of the case ({', '.join((*counted, *meshes))}), found {name!r}"
            )
    if cores is not None and cores < 1:
        raise DataError(f"expected at least 1 core, found {cores}")
    model = model or CostModel()
    chosen, prediction = dict(meshes), None
    if ranks or partitions or vertices:
        if regions:
            raise DataError("expected no access regions for a forecast, found some: nobody knows them for other ranks")
        counted |= {name: int(count) for name, count in (ranks or {}).items() if name in counted}
        chosen, prediction = forecast(links, meshes, counted, partitions or {}, vertices or {})
    analyses = tuple(
        analyse_link(
            link,
            chosen,
            regions.get(link.mesh),
            steps=steps,
            iterations=iterations,
            model=model,
            cores=cores,
        )
        for link in links
    )
    order = {name: counted[name] for name in configuration.participants if name in counted}
    accepted = accepted_ranks(configuration)
    refusals = [accepted[name].problem(name, count) for name, count in order.items() if name in accepted]
    advice = (*filter(None, refusals), *advise(analyses, chosen))
    missing = tuple(
        f"{analysis.link.title}: level 2 and the data per time window need coordinates: record with "
        "PRECICE_LB_MESHES=coordinates"
        for analysis in analyses
        if analysis.level_2 is None
    )
    return PartnersReport(order, analyses, chosen, advice, prediction, model, missing)


def _link_dict(analysis: LinkPartners) -> dict[str, Any]:
    link = analysis.link
    total = None if analysis.pair_bytes is None else float(analysis.pair_bytes.sum())
    result: dict[str, Any] = {
        "mesh": link.mesh,
        "provider": link.provider,
        "receiver": link.receiver,
        "safety_factor": link.safety_factor,
        "two_level": link.two_level,
        "ranks": list(analysis.ranks),
        "mesh_vertices": analysis.mesh_vertices,
        "level_1_pairs": len(analysis.level_1),
        "level_2_pairs": None if analysis.level_2 is None else len(analysis.level_2),
        "empty_pairs": analysis.empty_pairs,
        "one_level_pairs": None if analysis.one_level is None else len(analysis.one_level),
        "bytes_per_window": total,
        "messages_per_window": analysis.messages_per_window,
        "needed_safety_factor": analysis.needed_factor,
        "open_choices": analysis.open_choices,
        "approximated_mappings": list(analysis.approximated),
    }
    for side, name in enumerate(("provider", "receiver")):
        partners = analysis.partners(side)
        result[f"{name}_partners"] = {
            "mean": float(partners.mean()),
            "maximum": int(partners.max()),
            "histogram": np.bincount(partners).tolist(),
        }
    for two_level, cost in analysis.cost.items():
        result["two_levels" if two_level else "one_level"] = asdict(cost)
    return result


def write_pairs(report: PartnersReport, path: str | Path) -> None:
    """Write all pairs of a report.

    One group per received mesh, with provider and receiver as attributes. In it ``level_1`` and, where known,
    ``level_2`` and ``one_level`` are matrices in compressed sparse rows as scipy has them: the partners of provider
    rank ``r`` are ``indices[indptr[r]:indptr[r + 1]]``; ``data`` of ``level_2`` counts vertices.

    Parameters
    ----------
    report : PartnersReport
        The report.
    path : path
        The file; replaced if it is there.

    Raises
    ------
    DataError
        If it cannot be written.
    """
    try:
        with h5py.File(path, "w") as file:
            file.attrs.update(format=_FORMAT, format_version=_FORMAT_VERSION)
            for number, analysis in enumerate(report.links):
                group = file.create_group(str(number))
                group.attrs.update(
                    mesh=analysis.link.mesh, provider=analysis.link.provider, receiver=analysis.link.receiver
                )
                for name in ("level_1", "level_2", "one_level"):
                    pairs = getattr(analysis, name)
                    if pairs is None:
                        continue
                    matrix = group.create_group(name)
                    matrix.attrs["shape"] = analysis.ranks
                    matrix["indptr"] = np.searchsorted(pairs[:, 0], np.arange(analysis.ranks[0] + 1))
                    columns = {"indices": pairs[:, 1]} | ({"data": analysis.vertices} if name == "level_2" else {})
                    for column, values in columns.items():
                        matrix.create_dataset(column, data=values, compression="gzip", shuffle=True)
    except OSError as error:
        raise DataError(
            f"{path}: expected a place to write pairs to, found: {error.strerror or error}; name another"
        ) from error
