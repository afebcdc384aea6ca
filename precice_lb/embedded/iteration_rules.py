"""What preCICE demands of implicit coupling schemes and of waveforms (``CouplingSchemeConfiguration.cpp``)."""

from __future__ import annotations

from precice_lb.embedded.settings import acceleration_settings, element_of, measure_settings, min_iterations
from precice_lb.exceptions import ConfigurationError
from precice_lb.precice_xml import Configuration, CouplingScheme, Exchange

__all__ = ["check_iterations"]


def check_iterations(configuration: Configuration, scheme: CouplingScheme) -> None:
    """Check one coupling scheme.

    Parameters
    ----------
    configuration
        The whole configuration.
    scheme
        One of its schemes.

    Raises
    ------
    ConfigurationError
        Naming what preCICE would refuse as well.
    """
    for exchange in scheme.exchanges:
        _check_waveform(configuration, exchange)
    _check_shared(configuration, scheme)
    if not scheme.is_implicit:
        return
    for name in scheme.participants:
        if not any(exchange.source == name for exchange in scheme.exchanges):
            _refuse(
                configuration,
                scheme.line,
                f'participant "{name}" sends nothing in an implicit coupling scheme: add an <exchange> from it, or '
                "take an explicit scheme for coupling in one direction",
            )
    decides = scheme.controller or scheme.participants[1]
    min_iterations(configuration, scheme)
    for measure in measure_settings(configuration, scheme):
        _check_exchanged(configuration, scheme, measure.mesh, measure.data, decides)
    acceleration = acceleration_settings(configuration, scheme)
    for mesh, data, _ in acceleration.data if acceleration is not None else ():
        _check_exchanged(configuration, scheme, mesh, data, decides)
        if scheme.is_serial and not any((e.mesh, e.data, e.source) == (mesh, data, decides) for e in scheme.exchanges):
            _refuse(
                configuration,
                element_of(configuration, scheme).line,
                f'accelerates data "{data}" on mesh "{mesh}", but in a serial scheme only what the second participant '
                f'"{decides}" sends can be accelerated: remove it from the acceleration',
            )


def _refuse(configuration: Configuration, line: int, what: str) -> None:
    raise ConfigurationError(f"{configuration.path}, line {line}: {what}")


def _check_exchanged(configuration: Configuration, scheme: CouplingScheme, mesh: str, data: str, decides: str) -> None:
    if not any((e.mesh, e.data) == (mesh, data) and decides in (e.source, e.target) for e in scheme.exchanges):
        _refuse(
            configuration,
            scheme.line,
            f'looks at data "{data}" on mesh "{mesh}" for convergence or acceleration, which "{decides}" does not '
            "exchange: add an <exchange> or remove it",
        )


def _check_waveform(configuration: Configuration, exchange: Exchange) -> None:
    degree = configuration.data[exchange.data].waveform_degree
    reads = any(data == exchange.data for _, data in configuration.participants[exchange.target].reads)
    if not reads or degree == 1:
        return
    if exchange.substeps != (degree > 1):
        wanted = "true" if degree > 1 else "false"
        _refuse(
            configuration,
            exchange.line,
            f'expected substeps="{wanted}" in <exchange> for data "{exchange.data}" with waveform-degree="{degree}", '
            f'found "{str(exchange.substeps).lower()}": correct one of them',
        )


def _check_shared(configuration: Configuration, scheme: CouplingScheme) -> None:
    """Refuse data that goes to several participants of a scheme in different ways."""
    seen: dict[tuple[str, str, str], Exchange] = {}
    for exchange in scheme.exchanges:
        first = seen.setdefault((exchange.mesh, exchange.data, exchange.source), exchange)
        if (first.substeps, first.initialize) != (exchange.substeps, exchange.initialize):
            _refuse(
                configuration,
                exchange.line,
                f'exchanges data "{exchange.data}" with other substeps or initialize than line {first.line}: make them '
                "the same",
            )
