"""Balance inside a participant: what each kind of cell costs, and partitions of equal cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precice_lb.rooms import lazily

if TYPE_CHECKING:
    from precice_lb.inside.balance import Balance, Partition, balance_of, fit_costs, partition_of
    from precice_lb.inside.loads import Cells, FeatureCosts, RankLoad
    from precice_lb.inside.mesh import read_cells

__all__ = [
    "Balance",
    "Cells",
    "FeatureCosts",
    "Partition",
    "RankLoad",
    "balance_of",
    "fit_costs",
    "partition_of",
    "read_cells",
]

__getattr__ = lazily(__name__, balance=__all__, mesh=__all__, loads=__all__)
