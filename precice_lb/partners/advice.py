"""What to change about partner ranks, in sentences with figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from precice_lb.partners.analysis import LinkPartners
from precice_lb.partners.level1 import overlapping_pairs, scaled_boxes
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.partners.partition import repartition
from precice_lb.plural import plural

__all__ = ["advise", "reason"]

# preCICE's documentation advises two-level initialisation from thousands of ranks.
_MANY_RANKS = 1000
_THIN = 4.0
_LARGE = 3.0
_FEWER = 0.8


def advise(links: tuple[LinkPartners, ...], meshes: Mapping[str, PartitionedMesh]) -> tuple[str, ...]:
    """Say what to change, in sentences; none where there is nothing."""
    advice: list[str] = []
    received = Counter(found.link.mesh for found in links)
    for found in links:
        advice += _refusals(found, meshes)
        advice += _scheme(found, received[found.link.mesh])
        advice += _factor(found, meshes)
        advice += _partition(found, meshes)
    for mesh in meshes.values():
        empty = int((mesh.counts == 0).sum())
        if empty:
            advice.append(
                f"{empty} of {mesh.ranks} ranks of {mesh.participant} hold nothing of {mesh.name} and take no "
                "part in its exchange"
            )
    return tuple(advice)


def _refusals(found: LinkPartners, meshes: Mapping[str, PartitionedMesh]) -> Iterator[str]:
    """Ranks for which preCICE would stop: they have vertices, but nothing of the received mesh reaches them."""
    link = found.link
    if found.level_2 is None or not link.filtered or found.ranks[1] == 1:
        return
    lonely = found.partners(1, found.level_2) == 0
    counts = [meshes[mapping.local].counts for mapping in link.mappings if mapping.local is not None]
    ranks = np.flatnonzero(lonely & (sum(counts, np.zeros(found.ranks[1])) > 0))
    if len(ranks):
        yield (
            f"{link.title}: preCICE will stop, as no vertex lies in the boxes of {plural(len(ranks), 'rank')} of "
            f"{link.receiver} (the first is {ranks[0]}): check that the meshes describe the same geometry, or enlarge "
            f"the safety factor {link.safety_factor:g}"
        )


def _scheme(found: LinkPartners, receivers: int) -> Iterator[str]:
    link = found.link
    one, two = found.cost[False], found.cost[True]
    many = max(found.ranks) >= _MANY_RANKS
    if not found.parallel or receivers > 1:
        if link.two_level:
            why = "for a mesh with several receivers" if found.parallel else "with a serial participant"
            yield f"{link.title}: switch two-level initialisation off: preCICE refuses it {why}"
    elif not link.two_level and many and two.seconds < one.seconds:
        yield (
            f"{link.title}: switch two-level initialisation on; it pays from thousands of ranks (about "
            f"{two.seconds:.2g} s instead of {one.seconds:.2g} s by the stated model)"
        )
    elif link.two_level and not many and one.seconds < two.seconds:
        yield (
            f"{link.title}: two-level initialisation does not pay at {sum(found.ranks)} ranks; it does from thousands "
            "of ranks"
        )


def _factor(found: LinkPartners, meshes: Mapping[str, PartitionedMesh]) -> Iterator[str]:
    link, needed = found.link, found.needed_factor
    if not np.isfinite(needed) or len(link.mappings) != 1 or not link.filtered:
        return
    local = link.mappings[0].local
    # Some room for what moves; coarse steps read best.
    proposed = float(np.ceil(max(1.5 * needed, 0.01) * 20) / 20)
    if local is None or proposed >= link.safety_factor:
        return
    pairs = len(overlapping_pairs(found.provider_boxes, scaled_boxes(meshes[local].boxes, proposed)))
    if pairs <= _FEWER * len(found.level_1):
        yield (
            f"{link.title}: safety-factor {proposed:g} instead of {link.safety_factor:g} is enough for the mapping "
            f"({needed:.2g} is needed) and leaves {pairs} of {len(found.level_1)} pairs of level 1"
        )


def _partition(found: LinkPartners, meshes: Mapping[str, PartitionedMesh]) -> Iterator[str]:
    """Compare with recursive coordinate bisection on both sides."""
    link = found.link
    names = [mapping.local for mapping in link.mappings if mapping.local is not None]
    if len(names) != 1 or link.api_access or any(meshes[n].coordinates is None for n in (link.mesh, names[0])):
        return
    compact = [repartition(meshes[name], meshes[name].ranks) for name in (link.mesh, names[0])]
    boxes = [mesh.boxes[mesh.counts > 0] for mesh in compact]
    pairs = len(overlapping_pairs(boxes[0], scaled_boxes(boxes[1], link.safety_factor)))
    filled = [~np.isnan(each[:, 0, 0]) for each in (found.provider_boxes, found.receiver_boxes)]
    now = int((filled[0][found.level_1[:, 0]] & filled[1][found.level_1[:, 1]]).sum())
    if pairs <= _FEWER * now:
        yield (
            f"{link.title}: compact partitions (recursive coordinate bisection) would connect {pairs} pairs in level 1 "
            f"instead of {now}"
        )


def reason(found: LinkPartners, side: int, rank: int) -> str:
    """Say why a rank of provider (side 0) or receiver (1) has many partners: "a long thin box", for example."""
    boxes = (found.provider_boxes, found.receiver_boxes)[side]
    if np.isnan(boxes[rank]).any():
        return "an empty rank meets every empty rank"
    extents = boxes[:, :, 1] - boxes[:, :, 0]
    if side == 1 and found.link.mappings:
        # Without the safety margin, which hides the shape of the rank's part.
        factor = found.link.safety_factor
        extents = np.maximum(extents - 2 * factor / (1 + 2 * factor) * extents.max(axis=1, keepdims=True), 0.0)
    diagonal = np.linalg.norm(extents, axis=1)
    usual = float(np.nanmedian(diagonal))
    own = np.sort(extents[rank])[::-1]
    if usual > 0 and diagonal[rank] > _LARGE * usual:
        return f"a box {diagonal[rank] / usual:.1f} times as large as usual: its vertices are scattered"
    if own[0] > 0 and own[1] * _THIN < own[0]:
        return "a long thin box, whose safety margin follows its longest edge" if side else "a long thin box"
    other = (found.provider_boxes, found.receiver_boxes)[1 - side]
    theirs = float(np.nanmedian(np.linalg.norm(other[:, :, 1] - other[:, :, 0], axis=1)))
    if theirs * 1.5 < diagonal[rank]:
        return f"{(found.link.provider, found.link.receiver)[1 - side]}'s boxes are smaller, so that more of them fit"
    return "large boxes or safety margins around it"
