"""What is no longer there: commands and options are refused, keys of files are named and ignored, in one line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from precice_lb.exceptions import DataError
from precice_lb.text import say

_TO_CSV = "write the columns participant, ranks and seconds as a CSV file, which recommend takes as it is"
# What to use instead.
_COMMANDS = {
    "merge": "precice-lb export --merged copies the ranks of each participant into one file",
    "import precice-events": _TO_CSV,
    "import ateles-timeinfo": _TO_CSV,
    "import case": _TO_CSV,
    "fit": "benchmarks/regret.py compares learners by what decisions cost, and recommend decides by the best of them",
    "chain check": "precice-lb chain says what its schemes forget at a border; docs/how-to/restart.md has the rest",
    "scripts": "precice-lb launch --study STUDY --write DIR writes the same",
    "guess check": "precice-lb guess patch CONFIG -o OUT refuses what stands in the way, and prints what it adds",
    "guess try": "set PRECICE_LB_GUESS=auto, which judges itself, and compare summaries of runs with and without it",
}
# Each after its command.
_OPTIONS = {
    "inside --mpi-report": "give the seconds that each rank was busy as a table, with --counts and --seconds",
    "guess patch --limits": "give the copy the limits that you want",
    "partners --fit-constants": "state the constants of your machine with --constants turn=…,file=…",
    "partners --partition-array": "say --ranks, and --partition MESH=FILE with one rank per line",
    "partners --profiling": "precice-profiling analyze says what the start-up of a run took",
    "launch --hostfile": "hosts are a matter of a study with the launcher template, see configs/README.md",
    "partners --cores": "say --constants cores=…",
    "partners --ranks-per-node": "place ranks by the pairs in partners.h5, which --output writes",
    "partners --style": "forecasts cut meshes by bisection; give another partition with --partition MESH=FILE",
}
_INSIDE = "precice-lb inside STORES --mesh MESH -o DIR writes DIR/samples.csv, which recommend takes as a source"
# Options of recommend and report that are keys of a study, by their table.
_OF_TABLES = {
    "machine": ("gpus-per-node", "whole-nodes", "memory-per-rank", "shared", "kinds"),
    "participants.NAME": (
        "minimum-ranks", "maximum-ranks", "degrees-of-freedom", "gpus-per-rank", "multiple", "memory", "kind",
        "ranks-per-node", "threads",
    ),
    "runs": ("within", "level", "learner", "accept-missing-ranks"),
}  # fmt: skip
_OF_LEARNERS = ("ridge", "folds", "loss", "constant", "n-terms", "no-constant")
_OF_BOTH = {
    **{f"--{key}": f"{table}.{key.replace('-', '_')}=…" for table, keys in _OF_TABLES.items() for key in keys},
    **{f"--{key}": f"runs.learner={{name='…', {key}=…}}" for key in _OF_LEARNERS},
    "--learner-parameters": "runs.learner={name='…', …}",
    "--dofs": "participants.NAME.degrees_of_freedom=…",
    "--share": "machine.shared=…",
    "--shared-overhead": "machine.shared=[{turns=…, overhead=…}]",
    "--gpus": "machine.gpus_per_node=…",
    "--layouts": "participants.NAME.threads=…, or ranks=…",
    "--allow": "participants.NAME.ranks=[…]",
    "--fixed": "participants.NAME.ranks=[…]",
    "--elements": "participants.NAME.memory=…",
    "--elements-per-rank": "machine.memory_per_rank=…",
    "--parameter": "case.parameter.NAME=…",
}
_OF_BOTH = {option: f"say --set {key}" for option, key in _OF_BOTH.items()} | {
    "--config": "say --coupling",
    **dict.fromkeys(("--spent", "--spent-core-hours"), "the core-hours that measuring took stand in the JSON"),
    "--verify": "the line optimum says what is proven of the split",
    **dict.fromkeys(("--inside", "recommend.inside"), _INSIDE),
    **dict.fromkeys(("--unit", "-u"), "times have the unit that suits each"),
}
_OPTIONS |= {f"{command} {option}": text for command in ("recommend", "report") for option, text in _OF_BOTH.items()}
_OPTIONS["calibrate --learner"] = _OF_BOTH["--learner"]
# Keys of a study that would change what it means, with what to use instead.
REFUSED_KEYS = {
    "machine.gpus": "say machine.nodes, cores_per_node and gpus_per_node, or machine.kinds",
    "machine.threads": "say participants.NAME.threads; splits then count its cores",
}
STUDY_KEYS: tuple[str, ...] = (
    "runs.design", "runs.beside", "runs.minutes", "runs.on_failure", "runs.meshes", "meshes", "emulation",
    "recommend.inside", "launcher.allocation", "launcher.job_number", "launcher.submit_retry_seconds",
)  # fmt: skip
CAMPAIGN_KEYS: tuple[str, ...] = (
    "settings.learner=shape", "settings.learner=gaussian-process", "runs.energy", "settings.recommend.inside",
    *(f"settings.{key}" for key in REFUSED_KEYS),
    *(f"asked.{key}" for key in (*REFUSED_KEYS, "runs.minutes", "runs.on_failure", "runs.meshes", "meshes")),
    "study.meshes",
)  # fmt: skip


def refuse_retired(tokens: Sequence[str]) -> None:
    """Refuse a retired command or option, with what to use instead.

    Parameters
    ----------
    tokens
        The words of a command line after the program's name.

    Raises
    ------
    DataError
        Where one of them, before ``--``, was retired.
    """
    words = list(tokens[: tokens.index("--")] if "--" in tokens else tokens)
    for command, instead in _COMMANDS.items():
        if words[: command.count(" ") + 1] == command.split():
            raise DataError(f"{command}: this command was retired; {instead}")
    for word in words[1:]:
        option = word.partition("=")[0]
        if f"{words[0]} {option}" in _OPTIONS:
            instead = _OPTIONS[f"{words[0]} {option}"]
            raise DataError(f"{option}: this option of {words[0]} was retired; {instead}")


def drop_retired(values: dict[str, Any], keys: Sequence[str], path: Path) -> None:
    """Take retired keys out of what a file says, and name those that said something.

    Parameters
    ----------
    values
        What the file says; changed in place.
    keys
        The keys, dotted and through lists; ``key=value`` is a retired value of a key that stays.
    path
        The file, for the message on standard error.
    """
    if names := [key for key in keys if _drop(values, key.split("."))]:
        say(f"precice-lb: {path}: {', '.join(names)}: retired, and so ignored", sys.stderr)


def pass_over_runs(values: dict[str, Any], path: Path) -> None:
    """Take runs of a campaign that say nothing of its case any more for interrupted ones.

    These are runs with participants in turns, and those on smaller meshes that did not end well.

    Parameters
    ----------
    values
        What the campaign's file says; changed in place.
    path
        Of that file.
    """
    runs = values.get("runs")
    records = [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
    meshes = [run for run in records if run.get("mesh") is not None and run.get("outcome") != "finished"]
    if passed := [run for run in records if run.get("in_turns") or run in meshes]:
        for run in passed:
            run["outcome"] = "interrupted"
        names = ", ".join(str(run.get("name")) for run in passed)
        say(
            f"precice-lb: {path}: runs in turns or on smaller meshes ({names}): retired, and so passed over", sys.stderr
        )


def _drop(value: Any, key: list[str]) -> bool:
    if isinstance(value, list):
        return sum(_drop(item, key) for item in value) > 0
    name, _, retired = key[0].partition("=")
    if not isinstance(value, dict) or name not in value or (retired and value[name] != retired):
        return False
    return _drop(value[name], key[1:]) if key[1:] else bool(value.pop(name))
