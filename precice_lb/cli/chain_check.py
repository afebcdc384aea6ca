"""The subcommand that says what a border of a chain does to a coupled run."""

from __future__ import annotations

from pathlib import Path

from precice_lb.cli.chain import chain_app
from precice_lb.cli.flow import Format, Output, print_result

__all__ = ["chain_check"]


@chain_app.command(name="check")
def chain_check(
    study: Path,
    *,
    output: Output = None,
    format: Format = "table",
) -> int:
    """Show what preCICE forgets between two segments of a chain, and what the configuration can keep.

    Nothing is run. A restarted preCICE begins at time 0, with zeros for data that are not initialised and without what
    an acceleration has learned. With runs of a chain or a campaign of the study, what a start costs in coupling
    iterations is measured: those of the first windows beside those of later ones. Exit code 1 says that a chain would
    give other results than one run, or lose some. Notes stop nothing.

    Example: precice-lb chain check climate-chain.toml

    Parameters
    ----------
    study
        The study file (TOML), with or without a table [chain].
    output
        Where a chain or a campaign of it has been run.
    format
        A table to read, or JSON for scripts.
    """
    from precice_lb.calibrate import read_study
    from precice_lb.chain.borders import borders
    from precice_lb.chain.check import findings, notes, starts
    from precice_lb.precice_xml import read_configuration
    from precice_lb.report.chain_check_view import chain_check_blocks, chain_check_dict

    read = read_study(study)
    configuration = read_configuration(read.configuration_path)
    directories = {each.name: Path(each.directory) for each in read.participants}
    windows, total = (None, None) if read.chain is None else (read.chain.windows, read.chain.total)
    found = findings(configuration, windows=windows, directories=directories)
    said = (
        configuration,
        starts(configuration),
        found,
        notes(configuration, total=total),
        None if output is None else borders(output),
    )
    print_result(format, lambda: chain_check_blocks(*said), lambda: chain_check_dict(*said), whole_lines=True)
    return 1 if found else 0
