"""The whole answer for a case: every received mesh, forecast for another split, and advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.partners.advice import advise
from precice_lb.partners.analysis import LinkPartners, analyse_link
from precice_lb.partners.links import check_meshes, links_of
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.partners.partition import Forecast, forecast
from precice_lb.partners.start_up import CostModel
from precice_lb.precice_xml import Configuration

__all__ = ["PartnersReport", "partners_report", "write_pairs"]

_FORMAT = "precice-lb-partners"
_FORMAT_VERSION = 1


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
    measured : mapping
        Seconds that parts of the start-up took, as `precice_lb.partners.measured_start_up` gives them.
    missing : tuple of str
        What is not reported, and what it needs, in sentences.
    """

    ranks: dict[str, int]
    links: tuple[LinkPartners, ...]
    meshes: dict[str, PartitionedMesh]
    advice: tuple[str, ...]
    forecast: Forecast | None
    model: CostModel
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def model_warning(self) -> str | None:
        """What to know of start-up seconds while their model has its stated constants."""
        if not self.model.is_default:
            return None
        return (
            "start-up seconds rest on stated constants, those of a small virtual machine, and say no more than their "
            "order: --profiling puts a measured start-up beside them, and --constants turn=…,file=… states others"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pairs as nested mappings for JSON; seconds and bytes."""
        return {
            "ranks": self.ranks,
            "links": [_link_dict(each) for each in self.links],
            "advice": list(self.advice),
            "missing": list(self.missing),
            "forecast": None if self.forecast is None else asdict(self.forecast),
            "cost_model": self.model.to_dict(),
            "cost_model_warning": self.model_warning,
            "measured_start_up": {name: dict(parts) for name, parts in self.measured.items()},
        }


def partners_report(
    configuration: Configuration,
    meshes: Mapping[str, PartitionedMesh],
    regions: Mapping[str, NDArray[np.float64]] | None = None,
    *,
    ranks: Mapping[str, int] | None = None,
    partitions: Mapping[str, str | Path] | None = None,
    vertices: Mapping[str, int] | None = None,
    steps: int = 1,
    iterations: float = 1.0,
    model: CostModel | None = None,
    cores: int | None = None,
    measured: Mapping[str, Mapping[str, float]] | None = None,
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
    measured : mapping, optional
        What `precice_lb.partners.measured_start_up` gives, to stand beside the estimate.

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
    chosen, told = dict(meshes), None
    if ranks or partitions or vertices:
        if regions:
            raise DataError("expected no access regions for a forecast, found some: nobody knows them for other ranks")
        counted |= {name: int(count) for name, count in (ranks or {}).items() if name in counted}
        chosen, told = forecast(links, meshes, counted, partitions or {}, vertices or {})
    found = tuple(
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
    advice = advise(found, chosen)
    missing = tuple(
        f"{each.link.title}: level 2 and the data per time window need coordinates: record with "
        "PRECICE_LB_MESHES=coordinates"
        for each in found
        if each.level_2 is None
    )
    return PartnersReport(order, found, chosen, advice, told, model, measured or {}, missing)


def _link_dict(found: LinkPartners) -> dict[str, Any]:
    link = found.link
    total = None if found.pair_bytes is None else float(found.pair_bytes.sum())
    result: dict[str, Any] = {
        "mesh": link.mesh,
        "provider": link.provider,
        "receiver": link.receiver,
        "safety_factor": link.safety_factor,
        "two_level": link.two_level,
        "ranks": list(found.ranks),
        "mesh_vertices": found.mesh_vertices,
        "level_1_pairs": len(found.level_1),
        "level_2_pairs": None if found.level_2 is None else len(found.level_2),
        "empty_pairs": found.empty_pairs,
        "one_level_pairs": None if found.one_level is None else len(found.one_level),
        "bytes_per_window": total,
        "messages_per_window": found.messages_per_window,
        "needed_safety_factor": found.needed_factor,
        "open_choices": found.open_choices,
        "approximated_mappings": list(found.approximated),
    }
    for side, name in enumerate(("provider", "receiver")):
        partners = found.partners(side)
        result[f"{name}_partners"] = {
            "mean": float(partners.mean()),
            "maximum": int(partners.max()),
            "histogram": np.bincount(partners).tolist(),
        }
    for two_level, cost in found.cost.items():
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
            for number, found in enumerate(report.links):
                group = file.create_group(str(number))
                group.attrs.update(mesh=found.link.mesh, provider=found.link.provider, receiver=found.link.receiver)
                for name in ("level_1", "level_2", "one_level"):
                    pairs = getattr(found, name)
                    if pairs is None:
                        continue
                    matrix = group.create_group(name)
                    matrix.attrs["shape"] = found.ranks
                    matrix["indptr"] = np.searchsorted(pairs[:, 0], np.arange(found.ranks[0] + 1))
                    columns = {"indices": pairs[:, 1]} | ({"data": found.vertices} if name == "level_2" else {})
                    for column, values in columns.items():
                        matrix.create_dataset(column, data=values, compression="gzip", shuffle=True)
    except OSError as error:
        raise DataError(
            f"{path}: expected a place to write pairs to, found: {error.strerror or error}; name another"
        ) from error
