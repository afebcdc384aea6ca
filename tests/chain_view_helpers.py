"""Chains as their driver leaves them in ``chain.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from precice_lb.chain.document import ChainDocument, Decision, SegmentEntry

KINDS = ("start", "learn", "move", "undo", "stay")


def chain_of(
    splits: Sequence[Mapping[str, int]],
    *,
    windows: int = 10,
    total: int | None = None,
    following: Mapping[str, int] | None = None,
    problem: str | None = None,
) -> ChainDocument:
    """Make a chain with a segment for each split, whose participants cost 1 s over their ranks, and more by place."""
    segments = []
    for place, split in enumerate(splits):
        seconds = {name: (1.0 + at) / ranks for at, (name, ranks) in enumerate(split.items())}
        window = max(seconds.values())
        moved = place and dict(split) != dict(splits[place - 1])
        kind = "start" if not place else KINDS[1 + place % 3] if moved else "stay"
        segments.append(
            SegmentEntry(
                segment=place + 1,
                run=f"{place + 1:03d}-{'-'.join(f'{name}{ranks}' for name, ranks in split.items())}"[:120],
                start_window=place * windows,
                split=dict(split),
                windows=windows,
                window_seconds=window,
                seconds=seconds,
                wait_share={name: 1.0 - own / window for name, own in seconds.items()},
                border_seconds=4.0,
                kind=kind,  # type: ignore[arg-type]
                decision=f"decision {place + 1}: {window:.3g} s",
            )
        )
    done = len(segments) * windows
    entry = None if following is None else Decision(dict(following), "move", "moves since it pays within 20 windows")
    return ChainDocument("study.toml", done + windows if total is None else total, done, segments, entry, problem)
