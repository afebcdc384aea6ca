"""Read and check a study file: each error one line with file, key, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from precice_lb.campaign.launchers import launcher_from
from precice_lb.campaign.launchers.slurm import GPU_OPTIONS
from precice_lb.campaign.plan import RUN_VARIABLES, check_command, check_placeholders
from precice_lb.campaign.prepare import PLACEHOLDERS, task_of
from precice_lb.campaign.study import Study
from precice_lb.case import Configuration, read_configuration
from precice_lb.case.earlier import at_present, tables_in
from precice_lb.case.read import overlaid, read_toml, tables_from
from precice_lb.case.sections import VERSION_VARIABLE, ChainSection, ParticipantSection
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
    runs, names = study.runs, study.names_and_versions
    if runs.windows <= runs.warmup_windows:
        raise StudyError(
            f"runs.windows: expected more than the {plural(runs.warmup_windows, 'warm-up window')}, "
            f"found {runs.windows}"
        )
    _ = study.budget
    if words := [name for name, value in study.case.parameter.items() if isinstance(value, str)]:
        raise StudyError(f"case.parameter.{words[0]}: expected a number, found {study.case.parameter[words[0]]!r}")
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise StudyError(f"participants: {twice[0]!r} stands in the study twice")
    _check_variables(study.case.environment, "case.environment")
    programs = list(_programs(study))
    for number, kind in enumerate(study.machine.kinds, start=1):
        _check_options(study, f"machine.kinds[{number}]", kind.options)
    for key, _, program in programs:
        _check_program(study, key, program)
    has_versions = any(participant.versions for participant in study.participants)
    if getattr(study.launcher, "allocation", None) == "campaign" and (study.machine.kinds or has_versions):
        raise StudyError(
            'launcher.allocation: "campaign" holds nodes of one kind for all runs, which are of several versions or '
            'kinds here: use "run"'
        )
    if study.chain is not None and (study.machine.kinds or has_versions):
        raise StudyError("chain: expected participants without versions on nodes of one kind, found others")
    needed = 2 * len(study.combinations) if has_versions else 0
    if runs.splits is None and runs.maximum < needed:
        raise StudyError(f"runs.maximum: expected {needed} runs or more, two with each version, found {runs.maximum}")
    combinations = [study, *map(study.chosen, study.combinations)]
    try:
        for one in combinations:
            _ = one.limits
    except InfeasibleError as error:
        raise StudyError(f"machine: {error}") from error
    for index, split in enumerate(runs.splits or (), start=1):
        try:
            for one in combinations[1:]:
                one.require_split(one.split_of(split))
        except StudyError as error:
            raise StudyError(f"runs.splits[{index}]: {error}") from error
    if runs.splits == ():
        raise StudyError("runs.splits: expected at least one split; leave the key out to have them chosen")
    if study.chain is not None:
        _check_chain(study, study.chain)
    _check_case(study)
    for key, one, program in programs:
        _check_commands(one, key, program)


def _programs(study: Study) -> Iterator[tuple[str, Study, ParticipantSection]]:
    """Give all that may run as a participant, each version of those that have any, with the key of its table."""
    for index, participant in enumerate(study.participants):
        key = f"participants[{index + 1}]"
        for number, version in enumerate(participant.versions, start=1):
            one = study.chosen({participant.name: version.name})
            yield f"{key}.versions[{number}]", one, one.participants[index]
        if not participant.versions:
            yield key, study, participant


def _check_program(study: Study, key: str, program: ParticipantSection) -> None:
    """Check what a participant or a version of it says of itself: variables, options, threads."""
    if not program.command:
        raise StudyError(f"{key}.command: this key is missing")
    if program.version:
        _check_options(study, key, program.options)
    environment = {k: v for k, v in program.environment.items() if k != VERSION_VARIABLE or not program.version}
    _check_variables(environment, f"{key}.environment")
    for name, value in environment.items():
        if name == "OMP_NUM_THREADS" and program.name in study.layouts:
            raise StudyError(f"{key}.environment.{name}: the participant's threads set this variable; leave it out")
        try:
            check_placeholders(value, PLACEHOLDERS)
        except StudyError as error:
            raise StudyError(f"{key}.environment.{name}: {error}") from error
    if not study.launcher.gives_threads and (program.layouts.threads != 1 or program.layouts.pairs):
        raise StudyError(
            f"{key}: threads of {program.name!r} on the launcher {study.launcher.name}, which only knows ranks: use "
            "mpiexec, srun or slurm, write {threads} or {cores} into launcher.participant of a template, or leave out "
            "its threads"
        )


def _check_options(study: Study, key: str, options: Sequence[str]) -> None:
    """Refuse options of a batch system where no job is made of them; steps of an allocation may ask for its GPUs."""
    name = study.launcher.name
    wrong = [option for option in options if not (name == "srun" and option.startswith(GPU_OPTIONS))]
    if wrong and not hasattr(study.launcher, "options"):
        some = "options for GPUs alone" if name == "srun" else "no options of a batch system"
        raise StudyError(f"{key}.options: expected {some} on the launcher {name}, found {wrong[0]!r}: use slurm")


def _check_variables(environment: Mapping[str, str], key: str) -> None:
    if taken := [name for name in environment if name in RUN_VARIABLES]:
        raise StudyError(f"{key}.{taken[0]}: the campaign itself sets this variable for each run")


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


def _check_commands(study: Study, key: str, participant: ParticipantSection) -> None:
    """Check a participant's command, what comes before and after it, and templates."""
    case = study.case_directory
    directory = case / participant.directory
    values = task_of(study, participant, study.bounds[participant.name][0]).values
    commands = {f"command.{ranks}": command for ranks, command in participant.commands().items()}
    if isinstance(participant.command, str):
        commands = {"command": participant.command}
    for what, listed in (("prepare", participant.prepare), ("collect", participant.collect)):
        commands |= {f"{what}[{number}]": command for number, command in enumerate(listed, start=1)}
    for name, command in commands.items():
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
