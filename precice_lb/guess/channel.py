"""What a participant sends and receives of first guesses, by its configuration."""

from __future__ import annotations

from dataclasses import dataclass

from precice_lb.guess.routes import RELAXATIONS, Route, guess_name, is_added, is_patched, routes, shifted_name
from precice_lb.precice_xml.records import Configuration


@dataclass(frozen=True)
class Field:
    """A field at one of its ends.

    Attributes
    ----------
    mesh, data : str
        Names, as the solver gives them.
    route : Route
        The way that the field goes.
    degree : int
        Degree of its waveform in time.
    direct : bool
        Whether the mesh is another participant's, of which this one may have some vertices only.
    """

    mesh: str
    data: str
    route: Route
    degree: int
    direct: bool

    @property
    def key(self) -> tuple[str, str]:
        """Mesh and data."""
        return self.mesh, self.data

    @property
    def guess(self) -> str:
        """Name of the field with the predictions."""
        return guess_name(self.data)

    @property
    def shifted(self) -> str:
        """Name of the field with the shifted values."""
        return shifted_name(self.data)

    @property
    def initialized(self) -> bool:
        """Whether it starts from what its solver writes before the first time window, rather than from zero."""
        route = self.route
        ends = route.exchange.source, route.exchange.target
        return any(
            # One that is initialized takes all of its direction with it.
            each.initialize and (each.source, each.target) == ends and not is_added(each.data)
            for each in route.scheme.exchanges
        )

    @property
    def relaxed(self) -> bool:
        """Whether the shifted values are relaxed, by whatever factor."""
        return self.route.scheme.acceleration in RELAXATIONS

    @property
    def relative(self) -> bool:
        """Whether convergence is judged relative to the norm of the shifted values."""
        scheme, mesh = self.route.scheme, self.route.exchange.mesh
        return self.relaxed and any(
            "relative" in measure.kind and (measure.data, measure.mesh) == (self.shifted, mesh)
            for measure in scheme.measures
        )


@dataclass(frozen=True)
class Channel:
    """The fields of a participant that have predictions beside them, or the mere word that it takes part.

    Attributes
    ----------
    sent, received : tuple of Field
        By who writes.
    initializes : bool
        Whether the solver itself has initial data to write.
    """

    sent: tuple[Field, ...]
    received: tuple[Field, ...]
    initializes: bool

    @classmethod
    def of(cls, configuration: Configuration, participant: str) -> Channel | None:
        """Find a participant's channel; None where the configuration has no predictions for it."""
        if not is_patched(configuration):
            return None
        exchanges = [each for scheme in configuration.coupling_schemes for each in scheme.exchanges]
        carried = {(each.data, each.mesh, each.source, each.target) for each in exchanges}
        sent: list[Field] = []
        received: list[Field] = []
        for route in routes(configuration):
            exchange = route.exchange
            if (guess_name(exchange.data), exchange.mesh, exchange.source, exchange.target) in carried:
                degree = configuration.data[exchange.data].waveform_degree
                for name, mesh, fields in (
                    (exchange.source, route.write_mesh, sent),
                    (exchange.target, route.read_mesh, received),
                ):
                    if name == participant:
                        direct = mesh not in configuration.participants[name].provides
                        fields.append(Field(mesh, exchange.data, route, degree, direct))
        own = [each.data for each in exchanges if each.initialize and each.source == participant]
        initializes = any(not is_added(data) for data in own)
        return cls(tuple(sent), tuple(received), initializes) if sent or received else None
