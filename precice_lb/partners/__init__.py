"""Partner ranks before the launch: who talks to whom when preCICE initialises, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precice_lb.rooms import lazily

if TYPE_CHECKING:
    from precice_lb.partners.analysis import CostModel, LinkPartners, StartUp
    from precice_lb.partners.links import Link, LinkMapping
    from precice_lb.partners.meshes import PartitionedMesh, connected_ranks, make_mesh, read_partition
    from precice_lb.partners.report import Forecast, PartnersReport, partners_report, write_pairs
    from precice_lb.partners.sources import read_exports, read_mesh_files, read_store_meshes

__all__ = [
    "CostModel",
    "Forecast",
    "Link",
    "LinkMapping",
    "LinkPartners",
    "PartitionedMesh",
    "PartnersReport",
    "StartUp",
    "connected_ranks",
    "make_mesh",
    "partners_report",
    "read_exports",
    "read_mesh_files",
    "read_partition",
    "read_store_meshes",
    "write_pairs",
]

__getattr__ = lazily(__name__, report=__all__, analysis=__all__, links=__all__, meshes=__all__, sources=__all__)
