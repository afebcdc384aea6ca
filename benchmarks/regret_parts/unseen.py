"""Families that neither the oracle nor any learner was made for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regret_parts.families import FAMILIES, Family, between, minimum_at, serial_share

__all__ = ["UNSEEN", "kernels", "nodes", "published"]

Array = NDArray[np.float64]

CORES = np.array([16, 24, 32, 48, 64])

# Seconds per model day of four components, from the example of CIME's load balancing tool (ESMCI/cime,
# tools/load_balancing_tool/tests/example.json).
CIME = (
    ((32, 64, 128, 256, 512), (427.471, 223.332, 119.580, 66.182, 37.769)),
    ((32, 64, 128, 256, 512), (15.745, 7.782, 4.383, 3.181, 2.651)),
    ((32, 64, 128, 256, 512), (4.356, 2.191, 1.191, 0.705, 0.560)),
    ((32, 64, 160, 320), (8.018, 4.921, 2.368, 1.557)),
)
# Coefficient, exponent and exponent of the natural logarithm: A. Totounferoush, PhD thesis, Stuttgart 2022,
# Figure 3.8, inner and outer domain.
PULSE = (((2.4e4, -0.5, -2), (-5.8e4, -2.0, -1)), ((4.8e3, -1.25, 2), (1.3e5, -1.5, -1)))


def nodes(points: Array, ranks: Array) -> Array:
    """Give s + (1-s)/p (1 + m fill) + h ceil(log2 n) on n nodes of 16 to 64 cores.

    Ranks share a node's memory bandwidth: they slow each other down by up to m in U(0, 0.6) as it fills, and less again
    when the next node is begun. Every doubling of the nodes costs a step, so high that without rounding the minimum
    would be at 2^U(6, 12) ranks.
    """
    s, at, m = serial_share(points[:, :1]), minimum_at(points[:, 1:2]), between(0, 0.6, points[:, 2:3])
    cores = CORES[np.minimum((points[:, 3:4] * len(CORES)).astype(int), len(CORES) - 1)]
    count = np.ceil(ranks / cores)
    h = (1 - s) * np.log(2) / at
    return np.asarray(s + (1 - s) / ranks * (1 + m * ranks / (count * cores)) + h * np.ceil(np.log2(count)))


def kernels(points: Array, ranks: Array) -> Array:
    """Sum of three kernels w p^(-α), α in U(0.5, 1.15), a serial share and g p^β, β in U(0.2, 1.2)."""
    s, at = serial_share(points[:, :1]), minimum_at(points[:, 1:2])
    # Shares are uniform over all that add up to 1.
    cuts = np.sort(points[:, 2:4], axis=1)
    shares = np.diff(cuts, axis=1, prepend=0.0, append=1.0)[:, :, None] * (1 - s[:, :, None])
    alpha, beta = between(0.5, 1.15, points[:, 4:7])[:, :, None], between(0.2, 1.2, points[:, 7:8])
    slope = (shares * alpha * at[:, :, None] ** (-alpha - 1)).sum(axis=1)
    g = slope / (beta * at ** (beta - 1))
    return np.asarray(s + (shares * ranks ** (-alpha)).sum(axis=1) + g * ranks**beta)


def published(points: Array, ranks: Array) -> Array:
    """Give published curves, stretched over the ranks: four measured ones and two fitted ones.

    Measured ones are straight between their points on doubly logarithmic axes and go on as they end; their first point
    is at 2^U(3, 5) ranks. Fitted ones begin at 2^U(7, 9) of their ranks for 8 of ours. All take W/8 seconds at 8 ranks.
    """
    at = np.append(8.0, ranks)
    curves = np.array([_published(point, at) for point in points])
    return np.asarray(curves[:, 1:] / curves[:, :1] / 8)


def mixed(points: Array, ranks: Array) -> Array:
    """One of the three known families each; what is new is how their readings err."""
    kind = np.minimum((points[:, 0] * len(FAMILIES)).astype(int), len(FAMILIES) - 1)
    values = np.empty((len(points), len(ranks)))
    for index, family in enumerate(FAMILIES):
        mine = kind == index
        values[mine] = family.shape(points[mine, 1 : 1 + family.dimensions], ranks)
    return values


def _published(point: Array, ranks: Array) -> Array:
    curve = min(int(point[0] * (len(CIME) + len(PULSE))), len(CIME) + len(PULSE) - 1)
    if curve >= len(CIME):
        scaled = ranks / 8 * 2 ** float(between(7, 9, point[1]))
        return np.sum([c * scaled**i * np.log(scaled) ** j for c, i, j in PULSE[curve - len(CIME)]], axis=0)
    counts, seconds = np.log(CIME[curve][0]), np.log(CIME[curve][1])
    x = np.log(ranks) + counts[0] - np.log(2) * float(between(3, 5, point[1]))
    slopes = np.diff(seconds) / np.diff(counts)
    piece = np.clip(np.searchsorted(counts, x) - 1, 0, len(slopes) - 1)
    return np.asarray(np.exp(seconds[piece] + slopes[piece] * (x - counts[piece])))


UNSEEN: tuple[Family, ...] = (
    Family("nodes", 4, nodes, 11),
    Family("kernels", 8, kernels, 12),
    Family("published", 2, published, 13),
    Family("stragglers", 6, mixed, 14, stragglers=0.05),
)
