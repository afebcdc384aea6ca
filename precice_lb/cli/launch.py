"""The subcommand that starts a coupled run from its configuration and commands alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precice_lb.cli.app import Settings, app, named_values, split_values
from precice_lb.cli.flow import name_files, name_missing_limit, start_script_of
from precice_lb.exceptions import DataError, StudyError
from precice_lb.layout import layout_from
from precice_lb.text import say, script_command

if TYPE_CHECKING:
    from precice_lb.campaign import Study

_FOLDER = Path("launch")
_BETWEEN = ":"
# What only a job, and only srun, can be told.
_OF_JOB = re.compile(r"launcher\.(options|setup)\b|participants\..+\.options\b")
_OF_SRUN = re.compile(r"launcher\.mpi\b")


@app.command
def launch(
    *commands: str,
    split: list[str] | None = None,
    study: Path | None = None,
    config: Path = Path("precice-config.xml"),
    directory: list[str] | None = None,
    launcher: str | None = None,
    mpi: str | None = None,
    slurm: list[str] | None = None,
    settings: Settings = None,
    write: Path | None = None,
) -> int:
    """Start all participants of a coupled run, pinned, on cores of their own; or write the scripts that do.

    The commands stand behind --, with a colon between them as for mpiexec, in the order of --split. They are started as
    they are, on as many ranks as --split says, and what they print is in Fluid.log, Solid.log and so on in the current
    directory, each begun anew. The first participant that fails ends the others, and its exit code is this command's;
    Ctrl-C ends all ranks. To record a Python solver too, start it by precice-lb run. {ranks} in a command is its number
    of ranks, {threads} that of the threads of each. Where threads are said, a rank gets as many cores, and
    OMP_NUM_THREADS.

    The launcher is what the place asks for: mpiexec, srun in an allocation of Slurm, and a job of Slurm on its login
    node or where options of one are set: then scripts are written, nothing is started, and the last line says how to
    submit them. Keys of the launcher are set by --set launcher.KEY=…

    With --study its case, commands and launcher are taken, and the scripts are written.

    Example: precice-lb launch --split Fluid=2,Solid=1 -- ./fluid -parallel : python solid.py

    Example: precice-lb launch --split Fluid=96,Solid=8 --slurm account=a1 -- ./fluid : ./solid

    Example: precice-lb launch --study configs/pulse.toml --split Inner=11,Outer=5 --write launch-11-5

    Parameters
    ----------
    commands
        What each rank of the participants runs, with a colon between two of them.
    split
        Ranks of each participant: Fluid=48,Solid=16; ranks x threads where a solver has threads: Solid=1x8.
        With --study within its bounds, by default as recommended at the end of its campaign.
    study
        A study file (TOML), in place of commands and directories.
    config
        The precice-config.xml, which says who takes part.
    directory
        Where each participant starts, below the current directory: Fluid=fluid-openfoam,Solid=solid-fenics; by default
        in the current directory itself.
    launcher
        mpiexec, srun (steps of the allocation), slurm (a job) or another one, by default what the place asks for.
    mpi
        The --mpi of srun, such as pmix or pmi2.
    slurm
        Options of the job, one at a time: --slurm partition=cpu --slurm time=01:00:00; for one participant alone, as
        part of a heterogeneous job: --slurm Solid:partition=gpu.
    write
        Write run.sh and job.sbatch into this directory, and start nothing; with --study by default into
        launch below its campaign.
    """
    from precice_lb.campaign.launch import study_of_case, write_scripts
    from precice_lb.case import accepted_ranks, read_configuration
    from precice_lb.case.read import tables_from
    from precice_lb.case.sections import VERSION_VARIABLE

    if study is not None:
        if commands or directory or launcher or mpi or slurm:
            raise DataError("--study: expected --split, --set and --write alone beside it, found more; use --set")
        return _write_study(study, settings or [], split, write)
    if not split:
        raise DataError("--split: expected the ranks of each participant, found none; give them, or --study")
    if not config.is_file():
        raise DataError(f"--config: expected the precice-config.xml of the case, found no file {config}; name it")
    configuration = read_configuration(config)
    names = list(configuration.participants)
    versions: dict[str, str] = {}
    values = split_values(split, names, versions)
    if missing := [name for name in names if name not in values]:
        raise DataError(f"--split: expected ranks for every participant of {config}, found none for {missing[0]}")
    layouts = {name: layout_from(str(value)) for name, value in values.items()}
    for name, accepted in accepted_ranks(configuration).items():
        if problem := accepted.problem(name, layouts[name].ranks):
            raise DataError(f"--split: {problem}")
    starts = _commands(commands, list(layouts))
    places = named_values(
        directory or [], "--directory", "participant=directory", lambda _, value: value, participants=names
    )
    participants = [
        {
            "name": name,
            "command": starts[name],
            "directory": places.get(name, "."),
            "environment": {VERSION_VARIABLE: versions[name]} if name in versions else {},
            # Where no threads are said, a solver's environment stays as it is.
            **({"ranks": layout.ranks, "threads": layout.threads} if isinstance(values[name], str) else {}),
        }
        for name, layout in layouts.items()
    ]
    cores = {name: layout.cores for name, layout in layouts.items()}
    keys = [*(settings or []), *_keys(launcher, mpi, slurm or [], names)]
    tables = tables_from(keys)
    tables.setdefault("launcher", {}).setdefault("name", _launcher_here(keys, writes=write is not None))
    of_case = study_of_case(Path.cwd(), config, participants, sum(cores.values()), tables)
    is_job = of_case.launcher.name == "slurm"
    if write is None and not is_job:
        with tempfile.TemporaryDirectory(prefix="precice-lb-") as temporary:
            return _start(of_case, cores, Path(temporary))
    folder = write or _FOLDER
    written = write_scripts(of_case, cores, folder, stated_options=_stated_options(tables))
    start_script = start_script_of(written, of_case)
    if start_script is None:
        raise DataError(
            f"expected {of_case.launcher.name} on this machine, so that run.sh can start ranks, found none; install "
            "it, or name another launcher (--launcher)"
        )
    name_files(written)
    script = os.path.relpath(start_script)
    name_missing_limit(Path(script))
    say(f"nothing was started; start it: {script_command(script)}")
    return 0


def _keys(launcher: str | None, mpi: str | None, slurm: Sequence[str], names: Sequence[str]) -> list[str]:
    """Write options of the command as keys of a study."""
    keys: dict[str, Any] = {"launcher.name": launcher, "launcher.mpi": mpi}
    for text in slurm:
        name, _, option = text.partition(":")
        key, option = (f"participants.{name}.options", option) if name in names else ("launcher.options", text)
        keys.setdefault(key, []).append(f"--{option}")
    return [f"{key}={json.dumps(value)}" for key, value in keys.items() if value is not None]


def _write_study(path: Path, settings: Sequence[str], split: list[str] | None, write: Path | None) -> int:
    """Write the scripts of a study's split, by default the one that its campaign recommends."""
    from precice_lb.campaign import read_study
    from precice_lb.campaign.launch import write_scripts
    from precice_lb.campaign.recommendation_file import longest_window_seconds, recommended_split
    from precice_lb.case.read import tables_from
    from precice_lb.recommend.result import RECOMMENDATION_FILE

    study = read_study(path, settings)
    place = study.campaign_directory
    try:
        known = study.names_and_versions
        study, ranks = study.started(split_values(split, known) if split else recommended_split(place))
        study.require_split(ranks)
        versions = {participant.name: participant.version for participant in study.participants}
        window_seconds = longest_window_seconds(place, ranks, versions)
    except StudyError as error:
        where = f"{study.path}: --split" if split else str(place / RECOMMENDATION_FILE)
        raise DataError(f"{where}: {error}") from error
    folder = write or place / _FOLDER
    stated = _stated_options(tables_from(settings))
    name_files(write_scripts(study, ranks, folder, window_seconds=window_seconds, stated_options=stated))
    if study.launcher.name == "slurm":
        name_missing_limit(folder / "job.sbatch")
    return 0


def _stated_options(tables: object) -> set[str]:
    """Return the options of jobs in tables of the command line, wherever they stand there."""
    if isinstance(tables, list):
        return set().union(*map(_stated_options, tables))
    if not isinstance(tables, dict):
        return set()
    stated: set[str] = set()
    for key, value in tables.items():
        if key == "options":
            stated.update([value] if isinstance(value, str) else value)
        else:
            stated |= _stated_options(value)
    return stated


def _launcher_here(settings: Sequence[str], *, writes: bool) -> str:
    """Return what the place asks for, or a job where keys of one are set.

    In an allocation, participants may have options for GPUs alone.
    """
    from precice_lb.campaign.launch import on_login_node

    of_job = any(map(_OF_JOB.match, settings))
    if "SLURM_JOB_ID" in os.environ:
        return "slurm" if of_job and writes else "srun"
    return "slurm" if of_job or any(map(_OF_SRUN.match, settings)) or on_login_node() else "mpiexec"


def _commands(tokens: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Divide the tokens at colons, one command for each name."""
    commands: list[list[str]] = [[]]
    for token in tokens:
        commands[-1].append(token) if token != _BETWEEN else commands.append([])
    if len(commands) != len(names) or not all(commands):
        texts = " : ".join(shlex.join(command) or "nothing" for command in commands)
        raise DataError(
            f"expected a command for each of {', '.join(names)}, in this order, behind -- and with a colon between two "
            f"of them, found {texts}"
        )
    return dict(zip(names, commands, strict=True))


def _start(study: Study, split: dict[str, int], folder: Path) -> int:
    """Run it, and say how it ended."""
    from precice_lb.campaign.launch import last_words, start_split

    # Of files no second is cut off.
    since = time.time() - 1.0
    try:
        outcome = start_split(study, split, folder)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("logs and what was recorded are kept; launch starts anew") from None
    if outcome.error is None:
        say(f"ended after {outcome.seconds:.1f} s; precice-lb summary says where they went")
        return 0
    say(f"precice-lb: {outcome.error} after {outcome.seconds:.1f} s", sys.stderr)
    for name in outcome.participants:
        for line in last_words(study, name, study.layout(name, split[name]), since):
            say(f"{name}: {line}", sys.stderr)
    return outcome.code or 1
