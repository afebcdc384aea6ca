"""Partner ranks before the launch: who talks to whom when preCICE initialises, and what it costs."""

from __future__ import annotations

from precice_lb.partners.boxes import receiver_boxes
from precice_lb.partners.curves import hilbert_order, morton_order
from precice_lb.partners.level1 import connected_ranks, overlapping_pairs, scaled_boxes
from precice_lb.partners.level2 import Needs, needed_vertices
from precice_lb.partners.links import Link, LinkMapping, links_of
from precice_lb.partners.meshes import PartitionedMesh, make_mesh

__all__ = [
    "Link",
    "LinkMapping",
    "Needs",
    "PartitionedMesh",
    "connected_ranks",
    "hilbert_order",
    "links_of",
    "make_mesh",
    "morton_order",
    "needed_vertices",
    "overlapping_pairs",
    "receiver_boxes",
    "scaled_boxes",
]
