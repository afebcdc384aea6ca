"""Ensemble of small neural networks on the logarithm of time (Schröder 2019, chapter 3; Totounferoush 2022, 3.2.3).

Both authors train dense networks of rectified linear units, with every input scaled to [0, 1], on log2 of the seconds:
without the logarithm neither learned how time depends on the mesh level.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.published.formula import Expression, names_of

Array = NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRegressor(Learner):
    """Mean of networks that differ by their random first weights, in log2 of the seconds.

    Every prediction is positive and finite, but nothing else is known about it beyond the measurements.

    Parameters
    ----------
    hidden_layers : sequence of int
        Neurons of each hidden layer; default: Schröder's first choice.
    members : int
        Networks.
    alpha : float
        Penalty on the squared weights, in place of their dropout, which scikit-learn does not have.
    solver : {"lbfgs", "adam"}
        They use ADAM; L-BFGS needs a hundredth of the steps for so few measurements.
    max_iter : int
        Steps at most.
    log_inputs : bool
        Scale the logarithms of ranks and parameters (which then have to be positive) instead of themselves.
    random_state : int
        Seed: the same measurements give the same networks.
    """

    learner_name: ClassVar[str] = "neural"
    several_parameters: ClassVar[bool] = True
    hidden_layers: Sequence[int] = (30, 30)
    members: int = 5
    alpha: float = 0.01
    solver: str = "lbfgs"
    max_iter: int = 1000
    log_inputs: bool = False
    random_state: int = 0

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._check_parameters()
        inputs = np.log2(points) if self.log_inputs else points
        low, width = inputs.min(axis=0), np.ptp(inputs, axis=0)
        width[width == 0] = 1.0
        target = np.log2(seconds)
        centre, scale = float(target.mean()), float(target.std()) or 1.0
        networks = []
        for seed in np.random.SeedSequence(self.random_state).generate_state(self.members):
            network = MLPRegressor(
                hidden_layer_sizes=tuple(self.hidden_layers),
                alpha=self.alpha,
                solver=self.solver,
                max_iter=self.max_iter,
                random_state=int(seed),
            )
            with warnings.catch_warnings():
                # What matters is the spread of the networks, not whether the last digits have settled.
                warnings.simplefilter("ignore", ConvergenceWarning)
                network.fit((inputs - low) / width, (target - centre) / scale)
            networks.append(Network(tuple(network.coefs_), tuple(network.intercepts_)))
        self.formula_ = NetworkFormula(tuple(networks), low, width, centre, scale, bool(self.log_inputs))
        residuals = target - self.formula_.log2(points).mean(axis=0)
        # Standard deviation of the residuals in log2 of the seconds.
        self.error_ = float(np.sqrt(np.mean(residuals**2)))

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        """Student-t bounds from how far the networks are apart, and from the residuals."""
        logs = self.formula_.log2(points)
        deviation = np.sqrt(logs.var(axis=0, ddof=1) * (1 + 1 / self.members) + self.error_**2)
        half = float(student.ppf((1 + level) / 2, self.members - 1)) * deviation
        centre = logs.mean(axis=0)
        return np.exp2(np.clip(centre - half, -900.0, 900.0)), np.exp2(np.clip(centre + half, -900.0, 900.0))

    def _positive_for(self) -> str:
        return "log_inputs" if self.log_inputs else ""

    def _check_parameters(self) -> None:
        layers = list(self.hidden_layers)
        if not layers or not all(isinstance(size, int) and size > 0 for size in layers):
            raise ModelError(f"expected hidden_layers as positive whole numbers, found {self.hidden_layers!r:.60}")
        if not (isinstance(self.members, int) and self.members >= 2):
            raise ModelError(f"expected 2 or more members, found {self.members!r}")
        if self.solver not in ("lbfgs", "adam"):
            raise ModelError(f"expected a solver out of lbfgs, adam, found {self.solver!r}")
        if not self.alpha >= 0 or not self.max_iter >= 1:
            raise ModelError(
                f"expected alpha of 0 or more and max_iter of 1 or more, found {self.alpha!r}, {self.max_iter!r}"
            )


@dataclass(frozen=True, eq=False)
class Network:
    """Dense layers of rectified linear units with one linear output: weights (inputs, outputs) and offsets of each."""

    weights: tuple[Array, ...]
    offsets: tuple[Array, ...]

    def __call__(self, inputs: Array) -> Array:
        """Output for each row of inputs, shape (n,)."""
        values = inputs
        for layer, (weights, offsets) in enumerate(zip(self.weights, self.offsets, strict=True)):
            values = values @ weights + offsets
            if layer < len(self.weights) - 1:
                values = np.maximum(values, 0.0)
        return np.asarray(values[:, 0], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class NetworkFormula(Expression):
    """Two to the mean output of several networks, of inputs (x - low) / width, or of log2(x), shape (d,).

    log2 of the seconds is centre + scale times the output.
    """

    networks: tuple[Network, ...]
    low: Array
    width: Array
    centre: float
    scale: float
    log_inputs: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of ranks and parameters."""
        return names_of(len(self.low))

    def log2(self, points: Array) -> Array:
        """log2 of the seconds by each network, shape (networks, n), for points of shape (n, d)."""
        inputs = ((np.log2(points) if self.log_inputs else points) - self.low) / self.width
        return np.stack([self.centre + self.scale * network(inputs) for network in self.networks])

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at each row of ranks and parameters, shape (n,)."""
        rows = np.asarray(points, dtype=np.float64).reshape(-1, len(self.low))
        return np.asarray(np.exp2(np.clip(self.log2(rows).mean(axis=0), -900.0, 900.0)), dtype=np.float64)

    def text(self, digits: int = 4) -> str:
        """Plain text: what kind of networks, not their weights."""
        layers = " + ".join(str(len(offset)) for offset in self.networks[0].offsets[:-1])
        names = ", ".join(self._names("log2({})" if self.log_inputs else "{}"))
        return (
            f"2^({self.centre:.{digits}g} + {self.scale:.{digits}g}·mean of {len(self.networks)} networks of {layers} "
            f"neurons in {names})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give what describes the networks as plain JSON types, without their weights."""
        layers = [len(offsets) for offsets in self.networks[0].offsets]
        return {**super().to_dict(), "networks": len(self.networks), "layers": layers}

    def _names(self, form: str) -> list[str]:
        return [form.format(name) for name in self.names]
