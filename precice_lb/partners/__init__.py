"""Partner ranks before the launch: who talks to whom when preCICE initialises, and what it costs."""

from __future__ import annotations

from precice_lb.partners.analysis import LinkPartners, analyse_link
from precice_lb.partners.boxes import receiver_boxes
from precice_lb.partners.cost import CostModel, StartUp
from precice_lb.partners.curves import hilbert_order, morton_order
from precice_lb.partners.facade import Forecast, PartnersReport, partners_report
from precice_lb.partners.level1 import connected_ranks, overlapping_pairs, scaled_boxes
from precice_lb.partners.level2 import Needs, needed_vertices
from precice_lb.partners.links import Link, LinkMapping, links_of
from precice_lb.partners.measured import measured_start_up
from precice_lb.partners.meshes import PartitionedMesh, make_mesh
from precice_lb.partners.pairs_file import write_pairs
from precice_lb.partners.partition import STYLES, read_partition, repartition
from precice_lb.partners.placement import Placement, rank_order_text
from precice_lb.partners.sources import read_exports, read_mesh_files
from precice_lb.partners.spread import Spread, launched_spread
from precice_lb.partners.stores import meshes_of_run, read_store_meshes, run_with_meshes

__all__ = [
    "STYLES",
    "CostModel",
    "Forecast",
    "Link",
    "LinkMapping",
    "LinkPartners",
    "Needs",
    "PartitionedMesh",
    "PartnersReport",
    "Placement",
    "Spread",
    "StartUp",
    "analyse_link",
    "connected_ranks",
    "hilbert_order",
    "launched_spread",
    "links_of",
    "make_mesh",
    "measured_start_up",
    "meshes_of_run",
    "morton_order",
    "needed_vertices",
    "overlapping_pairs",
    "partners_report",
    "rank_order_text",
    "read_exports",
    "read_mesh_files",
    "read_partition",
    "read_store_meshes",
    "receiver_boxes",
    "repartition",
    "run_with_meshes",
    "scaled_boxes",
    "write_pairs",
]
