"""Read and check a study file: each error one line with file, key, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from precice_lb.campaign.checks import check_layouts, check_versions
from precice_lb.campaign.launchers import launcher_from
from precice_lb.campaign.plan import RUN_VARIABLES, check_command, check_placeholders
from precice_lb.campaign.prepare import PLACEHOLDERS, task_of
from precice_lb.campaign.study import Study
from precice_lb.campaign.versions import chosen, combinations_of
from precice_lb.case import Configuration, read_configuration
from precice_lb.case.earlier import at_present, tables_in
from precice_lb.case.read import overlaid, read_toml, tables_from
from precice_lb.case.sections import ChainSection, ParticipantSection
from precice_lb.case.tables import explain, keys_at
from precice_lb.exceptions import ConfigurationError, InfeasibleError, StudyError
from precice_lb.plugins import choices
from precice_lb.plural import plural
from precice_lb.retired import STUDY_KEYS, drop_retired


def read_study(path: str | Path, settings: Sequence[str] = ()) -> Study:
    """Read and check a study file.

    Parameters
    ----------
    path
        A TOML file; ``configs/README.md`` lists its keys.
    settings
        Keys that are to differ, such as ``machine.cores_per_node=48``.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        One line: the file, the key, what was expected and what was found.
    """
    path = Path(path).expanduser()
    raw = read_toml(path)
    if "path" in raw:
        raise StudyError(f"{path}: path: unknown key{choices('path', keys_at((), Study))}")
    drop_retired(raw, STUDY_KEYS, path)
    try:
        tables = at_present(raw, path)
        names = [str(table.get("name")) for table in tables_in(tables.get("participants"))]
        study = study_from(overlaid(tables, at_present(tables_from(settings), "--set", names)), path)
        check_study(study)
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from error
    return study


def study_from(raw: dict[str, Any], path: Path) -> Study:
    """Make a study of its tables; ``path`` is that of its file."""
    path = path.resolve()
    try:
        launcher = launcher_from(raw.get("launcher", {}), path.parent)
        return Study.model_validate({**raw, "launcher": launcher, "path": path})
    except ValidationError as error:
        raise StudyError(explain(error, raw, Study)) from None


def check_study(study: Study) -> None:
    """Check everything that can be known before the first run."""
    runs = study.runs
    if runs.windows <= runs.warmup_windows:
        raise StudyError(
            f"runs.windows: expected more than the {plural(runs.warmup_windows, 'warm-up window')}, "
            f"found {runs.windows}"
        )
    _ = study.budget
    if words := [name for name, value in study.case.parameter.items() if isinstance(value, str)]:
        raise StudyError(f"case.parameter.{words[0]}: expected a number, found {study.case.parameter[words[0]]!r}")
    for name in study.case.environment:
        if name in RUN_VARIABLES:
            raise StudyError(f"case.environment.{name}: the campaign itself sets this variable for each run")
    for index, participant in enumerate(study.participants, start=1):
        programs = [(f"versions[{at}].", version) for at, version in enumerate(participant.versions, start=1)]
        for key, program in programs or [("", participant)]:
            if not program.command:
                raise StudyError(f"participants[{index}].{key}command: this key is missing")
        if study.names.index(participant.name) != index - 1:
            raise StudyError(f"participants[{index}].name: {participant.name!r} stands in the study twice")
        if participant.maximum_ranks is not None and participant.maximum_ranks < participant.minimum_ranks:
            # As the user most likely named them.
            unit = "cores" if participant.name in study.layouts else "ranks"
            raise StudyError(
                f"participants[{index}].maximum_{unit}: expected at least minimum_{unit} = "
                f"{participant.minimum_ranks}, found {participant.maximum_ranks}"
            )
    _check_meshes(study)
    check_versions(study)
    check_layouts(study)
    needed = sum(low for low, _ in study.bounds.values())
    if study.budget < needed:
        # The same for all who are bound.
        whys = {f" ({bounds.least.why})" for bounds in study.accepted_ranks.values() if bounds.least.why}
        raise StudyError(
            f"machine.ranks: expected at least {plural(needed, study.unit)} for "
            f"{plural(len(study.names), 'participant')}{''.join(whys)}, found {study.budget}"
        )
    try:
        _ = study.allow
    except InfeasibleError as error:
        raise StudyError(f"machine: {error}") from error
    _check_splits(study)
    if study.chain is not None:
        _check_chain(study, study.chain)
    _check_case(study)


def _check_meshes(study: Study) -> None:
    meshes, parameters = study.runs.meshes, study.case.parameter
    for index, mesh in enumerate(meshes, start=1):
        key = f"runs.meshes[{index}]"
        for name in mesh.parameter:
            if name not in parameters:
                raise StudyError(
                    f"{key}.parameter: {name!r} is not in case.parameter, which says what the case itself has"
                    f"{choices(name, list(parameters))}"
                )
        if all(parameters[name] == value for name, value in mesh.parameter.items()):
            raise StudyError(f"{key}.parameter: expected values other than those of the case itself in case.parameter")
        for name in mesh.environment:
            if name in RUN_VARIABLES:
                raise StudyError(f"{key}.environment.{name}: the campaign itself sets this variable for each run")
    if meshes and study.runs.splits is not None:
        raise StudyError("runs.meshes: smaller meshes belong to an adaptive design: leave out runs.splits")
    small = sum(mesh.runs for mesh in meshes)
    if small >= study.runs.maximum:
        raise StudyError(
            f"runs.maximum: expected more than the {plural(small, 'run')} on smaller meshes, found {study.runs.maximum}"
        )


def _check_splits(study: Study) -> None:
    for index, split in enumerate(study.runs.splits or (), start=1):
        if named := next((name for name in split if ":" in name and name not in study.names), None):
            raise StudyError(
                f"runs.splits[{index}]: expected participants without a version, since each split is run with every "
                f"version, found {named!r}"
            )
        try:
            for versions in combinations_of(study):
                one = chosen(study, versions)
                one.require_split(one.split_of(split))
        except StudyError as error:
            raise StudyError(f"runs.splits[{index}]: {error}") from error
    if study.runs.splits == ():
        raise StudyError("runs.splits: expected at least one split; leave the key out to have them chosen")


def _check_chain(study: Study, chain: ChainSection) -> None:
    if (chain.windows is None) == (chain.minutes is None):
        found = "neither" if chain.windows is None else "both"
        raise StudyError(f"chain: expected either windows or minutes, the length of a segment, found {found}")
    for index, pattern in enumerate(chain.carry, start=1):
        path = Path(pattern)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise StudyError(f"chain.carry[{index}]: expected a pattern relative to the case, found {pattern!r}")
        if any("**" in part and part != "**" for part in path.parts):
            raise StudyError(f"chain.carry[{index}]: expected ** between slashes only, found {pattern!r}")
    if chain.start is not None:
        try:
            study.require_split(study.split_of(chain.start))
        except StudyError as error:
            raise StudyError(f"chain.start: {error}") from error


def _check_case(study: Study) -> None:
    case = study.case_directory
    if not case.is_dir():
        raise StudyError(f"case.directory: no such directory: {case}")
    if study.restart_path is not None and not study.restart_path.is_dir():
        raise StudyError(f"case.restart: no such directory: {study.restart_path}")
    if not study.configuration_path.is_file():
        raise StudyError(f"case.configuration: no such file: {study.configuration_path}")
    if not study.configuration_path.parent.resolve().is_relative_to(case):
        raise StudyError(
            f"case.configuration: expected a file inside the case {case}, found {study.configuration_path}"
        )
    try:
        configuration = read_configuration(study.configuration_path)
    except ConfigurationError as error:
        raise StudyError(f"case.configuration: {error}") from error
    configured = list(configuration.participants)
    for index, participant in enumerate(study.participants, start=1):
        key = f"participants[{index}]"
        if participant.name not in configured:
            raise StudyError(
                f"{key}.name: {participant.name!r} is no participant of {study.configuration_path.name}"
                f"{choices(participant.name, configured)}"
            )
        directory = case / participant.directory
        if not directory.is_dir():
            raise StudyError(f"{key}.directory: no such directory: {directory}")
        if not directory.resolve().is_relative_to(case):
            raise StudyError(f"{key}.directory: expected a directory inside the case {case}, found {directory}")
        for number, version in enumerate(participant.versions, start=1):
            one = chosen(study, {participant.name: version.name})
            _check_commands(one, one.participants[index - 1], f"{key}.versions[{number}]")
        if not participant.versions:
            _check_commands(study, participant, key)
    missing = [name for name in configured if name not in study.names]
    if missing:
        raise StudyError(
            f"participants: {', '.join(missing)} of {study.configuration_path.name} missing: "
            "every participant of the coupled simulation needs its [[participants]] table"
        )
    _check_network(study, configuration)
    for index, path in enumerate(study.existing_runs, start=1):
        if not path.is_dir():
            raise StudyError(f"runs.existing[{index}]: no such directory of stores: {path}")


def _check_commands(study: Study, participant: ParticipantSection, key: str) -> None:
    """Check a participant's command, what comes before and after it, and templates."""
    case = study.case_directory
    directory = case / participant.directory
    values = task_of(study, participant, study.bounds[participant.name][0]).values
    single = isinstance(participant.command, str)
    commands = [
        ("command" if single else f"command.{ranks}", command) for ranks, command in participant.commands().items()
    ]
    for what, listed in (("prepare", participant.prepare), ("collect", participant.collect)):
        commands += [(f"{what}[{number}]", command) for number, command in enumerate(listed, start=1)]
    for name, command in commands:
        try:
            check_placeholders(command, PLACEHOLDERS)
            check_command(command, directory, case, values)
        except StudyError as error:
            raise StudyError(f"{key}.{name}: {error}") from error
    for number, template in enumerate(participant.templates, start=1):
        if not (directory / template).is_file():
            raise StudyError(f"{key}.templates[{number}]: no such file: {directory / template}")


def _check_network(study: Study, configuration: Configuration) -> None:
    """Refuse sockets on the loopback interface where participants may come to lie on different nodes."""
    sockets = [element for element in configuration.root.children if element.tag == "m2n:sockets"]
    if study.case.network is not None:
        if not sockets:
            raise StudyError(
                f"case.network: {study.configuration_path.name} has no m2n:sockets to which it could apply"
            )
        return
    if study.launcher.many_nodes and any(element.attributes.get("network", "lo") == "lo" for element in sockets):
        raise StudyError(
            f"case.network: the sockets of {study.configuration_path.name} are on the loopback interface lo, on which "
            "ranks of different nodes never meet: name the interface of the compute nodes, such as ib0 or eth0, or lo "
            "where there is one node only"
        )
