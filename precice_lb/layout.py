"""What a participant runs on: so many MPI ranks, each with so many threads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError, LayoutError
from precice_lb.text import plural

Integers = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Layout:
    """Ranks of a participant, and the threads of each.

    Attributes
    ----------
    ranks, threads
        At least one each; every thread has a core of its own.
    """

    ranks: int
    threads: int = 1

    @property
    def cores(self) -> int:
        """Cores that the ranks and their threads take."""
        return self.ranks * self.threads

    @property
    def name(self) -> str:
        """The same as part of a name: 24, or 1x8, as `layout_from` reads it."""
        return str(self.ranks) if self.threads == 1 else f"{self.ranks}x{self.threads}"

    @property
    def words(self) -> str:
        """As a sentence says it, such as 24 ranks, or 1 x 8 threads."""
        return plural(self.ranks, "rank") if self.threads == 1 else str(self)

    def __str__(self) -> str:
        return str(self.ranks) if self.threads == 1 else f"{self.ranks} x {plural(self.threads, 'thread')}"


@dataclass(frozen=True)
class Layouts:
    """The layouts that a participant may have: one at most for each number of cores.

    Attributes
    ----------
    ranks, threads
        Fixed numbers, or None where the cores decide: ``Layouts()`` has as many ranks as cores, ``Layouts(1, None)``
        one rank with as many threads. One of them is fixed.
    pairs
        The only layouts there are, in place of both.
    """

    ranks: int | None = None
    threads: int | None = 1
    pairs: tuple[Layout, ...] = ()

    def __post_init__(self) -> None:
        if not self.pairs and self.ranks is None and self.threads is None:
            raise InfeasibleError(
                "expected ranks or threads to be fixed, or pairs of both, found both free: the same cores would be "
                "ranks or threads"
            )
        for number, pair in enumerate(self.pairs):
            if other := next((one for one in self.pairs[:number] if one.cores == pair.cores and one != pair), None):
                ways = f"one way to use {plural(pair.cores, 'core')}, found two: {other} and {pair}"
                raise InfeasibleError(f"expected {ways}; keep the faster one")

    def of(self, cores: int) -> Layout:
        """Layout on so many cores.

        Parameters
        ----------
        cores : int
            Of the participant.

        Returns
        -------
        Layout

        Raises
        ------
        InfeasibleError
            There is none.
        """
        layout = self._find(cores)
        if layout is None:
            raise InfeasibleError(f"expected {self} cores, found {cores}")
        return layout

    def _find(self, cores: int) -> Layout | None:
        _, ranks, threads = self.rows(cores, cores)
        return Layout(int(ranks[0]), int(threads[0])) if len(ranks) else None

    @property
    def step(self) -> int | None:
        """Of what all numbers of cores are multiples that have a layout; None where there are only some such."""
        return None if self.pairs or (self.ranks and self.threads) else self.threads or self.ranks or 1

    @property
    def constant_threads(self) -> int | None:
        """Threads of each rank where all layouts have as many."""
        return None if self.pairs else self.threads

    def rows(self, low: int, high: int) -> tuple[Integers, Integers, Integers]:
        """Numbers of cores from ``low`` to ``high`` that have a layout, rising, with its ranks and threads.

        Parameters
        ----------
        low, high : int
            Bounds, both included.

        Returns
        -------
        cores, ranks, threads : array of int, shape (n,)
        """
        if self.step is None:
            pairs = self.pairs or (Layout(self.ranks or 1, self.threads or 1),)
            known = sorted((pair.cores, pair.ranks, pair.threads) for pair in pairs if low <= pair.cores <= high)
            cores, ranks, threads = np.array(known, dtype=np.int64).reshape(-1, 3).T
            return cores, ranks, threads
        cores = np.arange(-(-max(low, 1) // self.step) * self.step, high + 1, self.step, dtype=np.int64)
        same = np.full(len(cores), self.step, dtype=np.int64)
        other = cores if self.step == 1 else cores // self.step
        return (cores, other, same) if self.threads else (cores, same, other)

    def allowed(self, low: int, high: int) -> list[int]:
        """Numbers of cores from ``low`` to ``high`` for which there is a layout, rising.

        Parameters
        ----------
        low, high : int
            Bounds, both included.

        Returns
        -------
        list of int
        """
        return [int(count) for count in self.rows(low, high)[0]]

    def text(self, cores: int) -> str:
        """Write the layout on so many cores: 1 x 8 threads; or the cores, where they have none.

        Parameters
        ----------
        cores : int
            Of the participant.

        Returns
        -------
        str
        """
        return str(self._find(cores) or plural(cores, "core"))

    def __str__(self) -> str:
        if self.pairs:
            return " or ".join(str(pair.cores) for pair in sorted(self.pairs))
        if self.ranks is not None and self.threads is not None:
            return str(self.ranks * self.threads)
        return f"a multiple of {self.threads or self.ranks}"


def layout_from(text: str) -> Layout:
    """Read a layout as people write it in a split: 24 ranks, or 1x8, one rank with eight threads.

    Parameters
    ----------
    text : str
        ``ranks`` or ``ranks x threads``.

    Returns
    -------
    Layout

    Raises
    ------
    LayoutError
        It is neither.
    """
    match = re.fullmatch(r"\s*([1-9][0-9]*)\s*(?:[xX]\s*([1-9][0-9]*)\s*)?", text)
    if match is None:
        raise LayoutError(f"expected ranks, or ranks x threads such as 1x8, found {text!r}")
    return Layout(int(match[1]), int(match[2] or 1))


def layouts_of(measured: Iterable[Layout]) -> Layouts:
    """Tell the layouts that measurements speak of.

    Parameters
    ----------
    measured : iterable of Layout
        At least one, of one participant.

    Returns
    -------
    Layouts
        Threads fixed if all have as many, but free if they all have one rank and several threads; ranks fixed if all
        have as many; else the measured pairs alone.

    Raises
    ------
    InfeasibleError
        As many cores were used in two ways.
    """
    layouts = sorted(set(measured))
    ranks, threads = {layout.ranks for layout in layouts}, {layout.threads for layout in layouts}
    if threads == {1}:
        return Layouts()
    if len(ranks) == 1 and (len(threads) > 1 or ranks == {1}):
        return Layouts(ranks.pop(), None)
    if len(threads) == 1:
        return Layouts(None, threads.pop())
    return Layouts(None, None, tuple(layouts))


def split_text(split: Mapping[str, int], layouts: Mapping[str, Layouts] | None = None) -> str:
    """Write a split: Fluid 24, Solid 1 x 8 threads.

    Parameters
    ----------
    split : mapping from participant to int
        Cores, which are ranks where a participant has no layouts.
    layouts : mapping from participant to Layouts, optional
        Of those with threads.

    Returns
    -------
    str
    """
    known = layouts or {}
    return ", ".join(f"{name} {known[name].text(cores) if name in known else cores}" for name, cores in split.items())


def counted_text(split: Mapping[str, int], layouts: Mapping[str, Layouts] | None = None) -> str:
    """Write a split as ranks: Fluid 12, Solid 4 ranks; or Fluid 24, Solid 1 x 8 threads: 32 cores.

    Parameters
    ----------
    split, layouts
        As of `split_text`.

    Returns
    -------
    str
    """
    text = split_text(split, layouts)
    if layouts:
        return f"{text}: {plural(sum(split.values()), 'core')}"
    return f"{text.rpartition(' ')[0]} {plural([*split.values()][-1], 'rank')}"


def count_text(name: str, count: int, layouts: Mapping[str, Layouts] | None = None) -> str:
    """Write what a participant has of a split: 24 ranks, or 1 x 8 threads.

    Parameters
    ----------
    name : str
        The participant.
    count : int
        Its cores, which are ranks where it has no layouts.
    layouts : mapping from participant to Layouts, optional
        Of those with threads.

    Returns
    -------
    str
    """
    known = (layouts or {}).get(name, Layouts())
    return known.of(count).words if known.allowed(count, count) else plural(count, "core")
