"""Cost laws of emulated loads: what a solver that only sleeps would cost on any number of ranks.

A law with known coefficients makes the true optimum of a split known, so that a recommendation can be judged by its
regret. Sleeping in place of computing is how Kim, Larson and Chiu (2013, section VI) emulate a climate model.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpi4py import MPI
    from numpy.typing import ArrayLike, NDArray

__all__ = ["CostLaw", "EmulatedLoad", "read_laws", "wait_asleep"]

_REQUIRED = ("serial", "work", "surface", "logarithmic")
_WHOLE = ("dimensions", "seed")


@dataclass(frozen=True)
class CostLaw:
    """Seconds per time window of one participant as a function of its number of ranks p.

    ``serial + work / p + surface / p^((d - 1) / d) + logarithmic * log2(p)``: work that cannot be divided, work that
    can, halo exchange over the surface of a rank's part of a d-dimensional domain, and collective communication.

    Parameters
    ----------
    serial, work, surface, logarithmic
        Coefficients in seconds, not negative, not all zero.
    dimensions
        Dimensions d of the domain, at least 1.
    noise
        Relative standard deviation of a time window's cost, in [0, 1).
    seed
        Seed of the noise.
    participant
        Name of the participant; participants of one seed differ in their noise.

    Raises
    ------
    ValueError
        A coefficient is out of its range.
    """

    serial: float
    work: float
    surface: float
    logarithmic: float
    dimensions: int = 2
    noise: float = 0.0
    seed: int = 0
    participant: str = ""

    def __post_init__(self) -> None:
        for name in _REQUIRED:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"cost law: {name} must be seconds >= 0, found {value!r}")
        if not any(getattr(self, name) for name in _REQUIRED):
            raise ValueError(f"cost law: one of {', '.join(_REQUIRED)} must be above 0 seconds, found only zeros")
        if self.dimensions < 1:
            raise ValueError(f"cost law: dimensions must be at least 1, found {self.dimensions!r}")
        if not 0.0 <= self.noise < 1.0:
            raise ValueError(f"cost law: noise must be a relative deviation in [0, 1), found {self.noise!r}")

    def seconds(self, ranks: ArrayLike) -> NDArray[np.float64]:
        """Return the seconds per time window, without noise.

        Parameters
        ----------
        ranks : array of any shape
            Rank counts; the result has the same shape.

        Raises
        ------
        ValueError
            A rank count is below 1.
        """
        p = np.asarray(ranks, dtype=np.float64)
        if not np.all(p >= 1.0):
            raise ValueError("cost law: ranks must be at least 1")
        surface = self.surface / p ** ((self.dimensions - 1) / self.dimensions)
        return np.asarray(self.serial + self.work / p + surface + self.logarithmic * np.log2(p))

    def factor(self, window: int, ranks: int) -> float:
        """Return the noise factor of a time window on so many ranks, the same on each of them and every machine.

        Log-normal with mean 1 and standard deviation ``noise``, so always positive.

        Parameters
        ----------
        window : int
            The time window.
        ranks : int
            Ranks of the participant.
        """
        # A hash, because it is stable across numpy versions and costs no import of numpy.random in the solver.
        digest = hashlib.blake2b(f"{self.seed}/{self.participant}/{ranks}/{window}".encode(), digest_size=16).digest()
        first, second = (int.from_bytes(half, "big") for half in (digest[:8], digest[8:]))
        radius = math.sqrt(-2.0 * math.log((first + 1) / 2.0**64))  # Box and Muller
        variance = math.log1p(self.noise**2)
        normal = radius * math.cos(2.0 * math.pi * second / 2.0**64)
        return math.exp(math.sqrt(variance) * normal - 0.5 * variance)


class EmulatedLoad:
    """Makes every time window's solve last as long as the participant's cost law says for its number of ranks.

    A solver calls :meth:`sleep` before its arithmetic, so that it does not compute while ranks on the same core still
    exchange data, and once more at the end of the window's solve.

    Parameters
    ----------
    path
        The file with the laws, see :func:`read_laws`.
    participant
        Name of the participant.
    ranks
        Its number of ranks.
    iterations
        Coupling iterations over which a window's cost is spread evenly: a window with as many costs what the law says.

    Raises
    ------
    ValueError
        The file is not one of cost laws, or has none of this participant.
    """

    def __init__(self, path: str | Path, participant: str, ranks: int, iterations: int = 1) -> None:
        laws = read_laws(path)
        if participant not in laws:
            raise ValueError(f"{path}: no cost law of {participant}")
        self.law = laws[participant]
        self.ranks = ranks
        self._base = float(self.law.seconds(ranks)) / iterations
        self._late: list[float] = []
        # Of a recorded run: ranks that sleep may share cores.
        stated = json.loads(os.environ.get("PRECICE_LB_METADATA") or "{}")
        os.environ["PRECICE_LB_METADATA"] = json.dumps({**stated, "emulated_load": True})

    @classmethod
    def of_solver(cls, path: str | Path, participant: str, comm: MPI.Comm, iterations: int = 1) -> EmulatedLoad:
        """Return the load of this rank's solver; bad laws end it with code 2 and one line from the first rank.

        Parameters
        ----------
        path : path
            The file with the laws.
        participant : str
            Whose load it is.
        comm : MPI communicator
            Of the participant's ranks.
        iterations : int
            Coupling iterations of a time window.
        """
        try:
            return cls(path, participant, comm.Get_size(), iterations)
        except ValueError as error:
            if comm.Get_rank() == 0:
                print(error, file=sys.stderr)
            sys.exit(2)

    def sleep(self, window: int, begin: float, share: float = 1.0) -> None:
        """Sleep until a share of the window's cost is over.

        Parameters
        ----------
        window : int
            The time window.
        begin : float
            When it began: seconds of ``time.perf_counter``.
        share : float
            From 0 to 1.
        """
        left = begin + share * self._base * self.law.factor(window, self.ranks) - time.perf_counter()
        if left > 0.0:
            time.sleep(left)
        elif share == 1.0:
            self._late.append(-left)

    def report(self) -> None:
        """Warn on standard error if windows took longer than the law says.

        Only a rank that waits for the partner in every window can tell: one without coupling vertices waits for other
        ranks during its solve instead, which looks like being late.
        """
        if self._late:
            print(
                f"{self.law.participant}: {len(self._late)} windows took longer than their cost law says, by"
                f" up to {max(self._late):.3f} s: the machine is too busy, or the law too fast, for this many ranks",
                file=sys.stderr,
            )


def wait_asleep(requests: Sequence[MPI.Request], longest: float = 2e-3) -> None:
    """Wait for MPI requests, asleep between looks, first for 0.05 ms and then longer and longer.

    MPI libraries poll while they wait. Ranks that share a core leave it to whoever has work when they sleep.

    Parameters
    ----------
    requests : sequence of MPI requests
        Those to complete.
    longest : float
        Seconds between two looks at most; few where all ranks come together soon and often.
    """
    pause = 5e-5
    while not all(request.Test() for request in requests):
        time.sleep(pause)
        pause = min(2.0 * pause, longest)


def read_laws(path: str | Path) -> dict[str, CostLaw]:
    """Read the cost law of each participant from a JSON file, in the order of the file.

    The file is an object from participant to an object with ``serial``, ``work``, ``surface``, ``logarithmic`` and
    perhaps ``dimensions``, ``noise`` and ``seed``, as in :class:`CostLaw`.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict of str to CostLaw
        By participant.

    Raises
    ------
    ValueError
        The file is missing, is not such an object, or a value is out of its range.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected a JSON file of cost laws, cannot read it: {error}") from error
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from error
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path}: expected an object from participant to its cost law, found {_shorten(content)}")
    return {name: _read_law(path, name, entry) for name, entry in content.items()}


def _read_law(path: str | Path, participant: str, entry: Any) -> CostLaw:
    where = f"{path}, participant {participant!r}"
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: expected an object of coefficients, found {_shorten(entry)}")
    known = [field.name for field in fields(CostLaw) if field.name != "participant"]
    for key, value in entry.items():
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}, expected {', '.join(known)}")
        expected: type | tuple[type, ...] = int if key in _WHOLE else (int, float)
        if isinstance(value, bool) or not isinstance(value, expected):
            kind = "a whole number" if key in _WHOLE else "a number"
            raise ValueError(f"{where}: {key} must be {kind}, found {_shorten(value)}")
    missing = [key for key in _REQUIRED if key not in entry]
    if missing:
        raise ValueError(f"{where}: missing {', '.join(missing)} (seconds; 0 for none)")
    try:
        return CostLaw(**entry, participant=participant)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
