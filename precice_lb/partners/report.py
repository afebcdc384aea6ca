"""The whole answer for a case: every received mesh, forecast for another split, and what to change, in sentences."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
from precice_lb.store.rank_file import hdf5
from precice_lb.text import plural

# preCICE's documentation advises two-level initialisation from thousands of ranks.
_MANY_RANKS = 1000
# A change has to leave at most this share of the pairs to be worth a sentence.
_FEWER = 0.8


def _is_worth_it(pairs: int, now: int) -> bool:
    """Tell whether a change leaves few enough of the pairs that there are now; where there are none, it saves none."""
    return now > 0 and pairs <= _FEWER * now


def advise(links: tuple[LinkPartners, ...], meshes: Meshes) -> tuple[str, ...]:
    """Say what to change, in sentences; none where there is nothing."""
    received = Counter(analysis.link.mesh for analysis in links)
    advice: list[str] = []

    @functools.cache
    def compact(name: str) -> PartitionedMesh:
        return repartition(meshes[name], meshes[name].ranks)

    for analysis in links:
        link = analysis.link
        names = (link.mesh, *link.locals)
        both = [meshes[name] for name in names]
        about = (*_refusals(analysis, both[1:]), *_scheme(analysis, received[link.mesh]))
        if len(both) == 2 and not link.api_access and all(mesh.coordinates is not None for mesh in both):
            about += (*_factor(analysis, both[1]), *_partition(analysis, both[0], map(compact, names)))
        advice += [f"{link.title}: {text}" for text in about]
    for mesh in meshes.values():
        if empty := int((mesh.counts == 0).sum()):
            advice.append(
                f"{empty} of {mesh.ranks} ranks of {mesh.participant} hold nothing of {mesh.name} and take no "
                "part in its exchange"
            )
    return tuple(advice)


def _refusals(analysis: LinkPartners, local: Sequence[PartitionedMesh]) -> Iterator[str]:
    """Ranks for which preCICE would stop: they have vertices, but nothing of the received mesh reaches them."""
    link = analysis.link
    if analysis.level_2 is None or not link.filtered or analysis.ranks[1] == 1:
        return
    busy = sum((mesh.counts for mesh in local), np.zeros(analysis.ranks[1])) > 0
    ranks = np.flatnonzero(busy & (analysis.partners(1, analysis.level_2) == 0))
    if len(ranks):
        yield (
            f"preCICE will stop, as no vertex lies in the boxes of {plural(len(ranks), 'rank')} of {link.receiver} "
            f"(the first is {ranks[0]}): check that the meshes describe the same geometry, or enlarge the "
            f"safety-factor {link.safety_factor:g}"
        )


def _scheme(analysis: LinkPartners, receivers: int) -> Iterator[str]:
    link, one, two = analysis.link, analysis.cost[False].seconds, analysis.cost[True].seconds
    if link.two_level and receivers > 1:
        yield "switch two-level initialisation off: preCICE refuses it for a mesh with several receivers"
    # preCICE can do it where both participants are parallel and nothing is gathered.
    is_possible = receivers == 1 and min(analysis.ranks) > 1 and not (link.two_level or link.gathered)
    if is_possible and max(analysis.ranks) >= _MANY_RANKS and two < one:
        yield (
            f"switch two-level initialisation on; it pays from thousands of ranks (about {two:.2g} s instead of "
            f"{one:.2g} s by the stated model)"
        )


def _factor(analysis: LinkPartners, local: PartitionedMesh) -> Iterator[str]:
    link, needed = analysis.link, analysis.needed_factor
    if not np.isfinite(needed) or not link.filtered:
        return
    # Some room for what moves; coarse steps read best.
    proposed = max(float(np.ceil(1.5 * needed * 20)), 1.0) / 20
    pairs = len(overlapping_pairs(analysis.provider_boxes, scaled_boxes(local.boxes, proposed)))
    # A larger factor never leaves fewer pairs.
    if _is_worth_it(pairs, len(analysis.level_1)):
        yield (
            f"safety-factor {proposed:g} instead of {link.safety_factor:g} is enough for the mapping ({needed:.2g} is "
            f"needed) and leaves {pairs} of {len(analysis.level_1)} pairs of level 1"
        )


def _partition(
    analysis: LinkPartners, provider: PartitionedMesh, by_bisection: Iterable[PartitionedMesh]
) -> Iterator[str]:
    """Compare with recursive coordinate bisection on both sides."""
    one, other = (mesh.boxes[mesh.counts > 0] for mesh in by_bisection)
    compact = len(overlapping_pairs(one, scaled_boxes(other, analysis.link.safety_factor)))
    # Empty ranks meet empty ones only.
    now = int((provider.counts[analysis.level_1[:, 0]] > 0).sum())
    if _is_worth_it(compact, now):
        yield (
            f"compact partitions (recursive coordinate bisection) would connect {compact} pairs in level 1 instead of "
            f"{now}"
        )


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
) -> tuple[dict[str, PartitionedMesh], Forecast]:
    """Partition all meshes for other numbers of ranks, by files or by bisection."""
    chosen, same, methods = {}, {}, {}
    for name, mesh in meshes.items():
        count = ranks[mesh.participant]
        if name in partitions:
            chosen[name] = read_partition(partitions[name], mesh, count)
            same[name], methods[name] = mesh, str(partitions[name])
            continue
        chosen[name] = repartition(mesh, count)
        same[name], methods[name] = repartition(mesh, mesh.ranks), "bisection"
    errors = []
    for link in links:
        truth, guess = _mean_and_most(link, meshes), _mean_and_most(link, same)
        errors.append(np.divide(np.abs(guess - truth), truth, out=(guess > 0).astype(float), where=truth > 0))
    return chosen, Forecast(methods, *np.max(errors, axis=(0, 1)).tolist())


def _mean_and_most(link: Link, meshes: Meshes) -> Floats:
    """Mean and maximum partners per rank of either side, shape (2, 2)."""
    boxes = (meshes[link.mesh].boxes, receiver_boxes(link, meshes))
    sides = zip(overlapping_pairs(*boxes).T, map(len, boxes), strict=True)
    counts = [np.bincount(ranks, minlength=count) for ranks, count in sides]
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

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pairs as nested mappings for JSON; seconds and bytes."""
        return {
            "ranks": self.ranks,
            "links": [_link_dict(analysis) for analysis in self.links],
            "advice": list(self.advice),
            "missing": list(self.missing),
            "forecast": None if self.forecast is None else asdict(self.forecast),
            "cost_model": self.model.to_dict(),
        }


def partners_report(
    configuration: Configuration,
    meshes: Meshes,
    regions: Mapping[str, Floats] | None = None,
    *,
    ranks: Mapping[str, int] | None = None,
    partitions: Mapping[str, str | Path] | None = None,
    iterations: float = 1.0,
    model: CostModel | None = None,
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
    iterations : float
        Coupling iterations per time window.
    model : CostModel, optional
        Constants of the start-up model.

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
    for name in (*(ranks or {}), *(partitions or {})):
        if name not in counted and name not in meshes:
            raise DataError(
                f"expected a participant or mesh of the case ({', '.join((*counted, *meshes))}), found {name!r}"
            )
    model = model or CostModel()
    chosen, prediction = dict(meshes), None
    if ranks or partitions:
        if regions:
            raise DataError("expected no access regions for a forecast, found some: nobody knows them for other ranks")
        counted |= {name: int(count) for name, count in (ranks or {}).items() if name in counted}
        chosen, prediction = forecast(links, meshes, counted, partitions or {})
    analyses = tuple(
        analyse_link(link, chosen, regions.get(link.mesh), iterations=iterations, model=model) for link in links
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
        "bytes_per_window": None if analysis.pair_bytes is None else float(analysis.pair_bytes.sum()),
        "messages_per_window": analysis.messages_per_window,
        "needed_safety_factor": analysis.needed_factor,
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
        with hdf5(path).File(path, "w") as file:
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
