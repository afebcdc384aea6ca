"""Read and check a study file: each error one line with file, key, what was expected and what was found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from precice_lb.campaign.launchers import launcher_from
from precice_lb.campaign.launchers.slurm import GPU_OPTIONS
from precice_lb.campaign.plan import RUN_VARIABLES, check_command, check_placeholders
from precice_lb.campaign.prepare import PLACEHOLDERS, task_of
from precice_lb.campaign.study import Study
from precice_lb.case import read_configuration
from precice_lb.case.read import overlaid, read_toml, tables_from
from precice_lb.case.sections import VERSION_VARIABLE, ParticipantSection
from precice_lb.case.tables import explain, keys_at
from precice_lb.exceptions import ConfigurationError, InfeasibleError, StudyError
from precice_lb.plugins import choices
from precice_lb.text import plural


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
    try:
        study = study_from(overlaid(raw, tables_from(settings)), path)
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


@contextlib.contextmanager
def _under(key: str) -> Iterator[None]:
    """Put the key whose value is checked before what is wrong with it."""
    try:
        yield
    except (StudyError, InfeasibleError, ConfigurationError) as error:
        raise StudyError(f"{key}: {error}") from error


def check_study(study: Study) -> None:
    """Check everything that can be known before the first run."""
    runs, names = study.runs, study.names_and_versions
    if runs.windows <= runs.warmup_windows:
        warmup = plural(runs.warmup_windows, "warm-up window")
        raise StudyError(f"runs.windows: expected more than the {warmup}, found {runs.windows}")
    for name, value in study.case.parameter.items():
        if isinstance(value, str):
            raise StudyError(f"case.parameter.{name}: expected a number, found {value!r}")
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise StudyError(f"participants: {twice[0]!r} stands in the study twice")
    _check_variables(study.case.environment, "case.environment")
    _check_case(study)
    combinations = [study, *map(study.chosen, study.combinations)]
    _ = study.budget
    with _under("machine"):
        for one in combinations:
            _ = one.limits
    for number, kind in enumerate(study.machine.kinds, start=1):
        _check_options(study, f"machine.kinds[{number}]", kind.options)
    for index, participant in enumerate(study.participants):
        key = f"participants[{index + 1}]"
        for number, version in enumerate(participant.versions, start=1):
            one = study.chosen({participant.name: version.name})
            _check_options(study, f"{key}.versions[{number}]", one.participants[index].options)
            _check_program(one, f"{key}.versions[{number}]", one.participants[index])
        if not participant.versions:
            _check_program(study, key, participant)
    has_versions = any(participant.versions for participant in study.participants)
    needed = 2 * len(study.combinations) if has_versions else 0
    if runs.splits is None and runs.maximum < needed:
        raise StudyError(f"runs.maximum: expected {needed} runs or more, two with each version, found {runs.maximum}")
    for index, split in enumerate(runs.splits or (), start=1):
        with _under(f"runs.splits[{index}]"):
            for one in combinations[1:]:
                one.require_split(one.split_of(split))
    if study.chain is None:
        return
    if study.machine.kinds or has_versions:
        raise StudyError("chain: expected participants without versions on nodes of one kind, found others")
    for index, pattern in enumerate(study.chain.carry, start=1):
        parts = Path(pattern).parts
        if not parts or parts[0] == "/" or ".." in parts or any("**" in part and part != "**" for part in parts):
            raise StudyError(
                f"chain.carry[{index}]: expected a pattern in the case, with ** between slashes only, found {pattern!r}"
            )
    if study.chain.start is not None:
        with _under("chain.start"):
            study.require_split(study.split_of(study.chain.start))


def _check_case(study: Study) -> None:
    case, path = study.case_directory, study.configuration_path
    places = {f"participants[{index}]": case / p.directory for index, p in enumerate(study.participants, start=1)}
    directories = {
        "case.directory": case,
        "case.restart": study.restart_path or case,
        **{f"runs.existing[{index}]": place for index, place in enumerate(study.existing_runs, start=1)},
        **{f"{key}.directory": place for key, place in places.items()},
    }
    for key, directory in directories.items():
        if not directory.is_dir():
            raise StudyError(f"{key}: no such directory: {directory}")
    if not path.is_file():
        raise StudyError(f"case.configuration: no such file: {path}")
    if not path.parent.resolve().is_relative_to(case):
        raise StudyError(f"case.configuration: expected a file inside the case {case}, found {path}")
    with _under("case.configuration"):
        configuration = read_configuration(path)
    known = list(configuration.participants)
    for (key, place), name in zip(places.items(), study.names, strict=True):
        if name not in known:
            raise StudyError(f"{key}.name: {name!r} is no participant of {path.name}{choices(name, known)}")
        if not place.resolve().is_relative_to(case):
            raise StudyError(f"{key}.directory: expected a directory inside the case {case}, found {place}")
    if missing := [name for name in known if name not in study.names]:
        raise StudyError(f"participants: expected a table for each, found none for {', '.join(missing)} of {path.name}")
    networks = [element.attributes.get("network", "lo") for element in configuration.root.named("m2n:sockets")]
    if study.case.network is None and "lo" in networks and study.launcher.many_nodes:
        raise StudyError(
            f"case.network: the sockets of {path.name} are on the loopback interface lo, on which ranks of different "
            "nodes never meet: name the interface of the nodes, such as ib0, or lo where there is only one"
        )


def _check_program(study: Study, key: str, program: ParticipantSection) -> None:
    """Check what runs as a participant: its commands, templates, variables and threads."""
    if not program.command:
        raise StudyError(f"{key}.command: this key is missing")
    if not study.launcher.gives_threads and (program.layouts.threads != 1 or program.layouts.pairs):
        raise StudyError(
            f"{key}: threads on the launcher {study.launcher.name}, which only knows ranks: use mpiexec, srun or "
            "slurm, write {threads} or {cores} into launcher.participant of a template, or leave them out"
        )
    environment = {k: v for k, v in program.environment.items() if k != VERSION_VARIABLE or not program.version}
    _check_variables(environment, f"{key}.environment")
    if "OMP_NUM_THREADS" in environment and program.name in study.layouts:
        raise StudyError(f"{key}.environment.OMP_NUM_THREADS: the participant's threads set it; leave it out")
    texts = {f"environment.{name}": text for name, text in environment.items()}
    one, several = isinstance(program.command, str), program.commands()
    commands = {"command" if one else f"command.{ranks}": command for ranks, command in several.items()}
    commands |= {f"prepare[{number}]": command for number, command in enumerate(program.prepare, start=1)}
    commands |= {f"collect[{number}]": command for number, command in enumerate(program.collect, start=1)}
    directory = study.case_directory / program.directory
    values = task_of(study, program, study.bounds[program.name][0]).values
    for name, text in (commands | texts).items():
        with _under(f"{key}.{name}"):
            check_placeholders(text, PLACEHOLDERS)
            if name in commands:
                check_command(text, directory, study.case_directory, values)
    for number, template in enumerate(program.templates, start=1):
        if not (directory / template).is_file():
            raise StudyError(f"{key}.templates[{number}]: no such file: {directory / template}")


def _check_variables(environment: Mapping[str, str], key: str) -> None:
    if taken := [name for name in environment if name in RUN_VARIABLES]:
        raise StudyError(f"{key}.{taken[0]}: the campaign itself sets this variable for each run")


def _check_options(study: Study, key: str, options: Sequence[str]) -> None:
    """Refuse options of a batch system where no job is made of them; steps of an allocation may ask for its GPUs."""
    if (name := study.launcher.name) == "srun":
        options = [option for option in options if not option.startswith(GPU_OPTIONS)]
    if options and not hasattr(study.launcher, "options"):
        some = "options for GPUs alone" if name == "srun" else "no options of a batch system"
        raise StudyError(f"{key}.options: expected {some} on the launcher {name}, found {options[0]!r}: use slurm")
