"""What a run left: measurements, whether it ran as its split says, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from precice_lb.campaign.plan import file_name
from precice_lb.campaign.processes import Outcome, end_of_log, log_tail
from precice_lb.campaign.state import RunRecord
from precice_lb.exceptions import PreciceLBError
from precice_lb.ingest.profiling import import_profiling
from precice_lb.layout import Layout
from precice_lb.store.schema import name_in_files
from precice_lb.text import plural

# Stores, and preCICE's profiling files, of one rank.
_RANK_FILE = re.compile(r"^(?P<who>.+)-\d+-(?P<size>\d+)(?:\.\d+)?\.(?:h5|spool|txt|json)$")
_PLACES = ("stores/**/*", "case/**/precice-profiling/*", "precice-profiling/*")
# Read of a log: behind the reason, every rank may print a backtrace.
_LONGEST = 4 * 2**20
# Lines of a log that are kept; those that follow a heading such as "--> FOAM FATAL ERROR:" and say what it announces;
# and the last words of a solver of which only its launcher tells.
_KEPT, _AFTER_HEADING, _LAST_WORDS = 4, 2, 2
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# In capitals: solvers print "continuity errors" and "error norms" in every step. Of signals, launchers and shells tell.
_FAULT = re.compile(
    r"\bFATAL\b|\bERROR\b(?=\s*[:\]!-]|\s*$)|^\W*ERROR\b|what\(\):|terminate called after|\(core dumped\)"
    r"|(?:exited on |EXIT STRING: .*)signal (?!15\b)\d+|^srun: error: .*Killed"
)
# An announcement whose message stands in the lines below it.
_HEADING = re.compile(r"FATAL (?:IO )?ERROR\s*:?\s*(?:\([^)]*\))?\s*$|terminate called after")
_RULER = re.compile(r"[^\w]*(?:\[\d+\])?\s*(?:PETSC ERROR:)?[\W_]*$")
# Behind a traceback, what is not set in names the exception.
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(?:(?![A-Za-z_][\w.]*(?:$|:))(?:.+\n?|\n))*", re.MULTILINE
)
# What a participant says whose partner has gone: it is not to blame.
_LOST = re.compile(
    r"other participant exited with an error|using sockets\) failed with a system error|partner \".*\" is gone"
    r"|Broken pipe|Connection reset by peer|End of file|the connection was closed"
)
# What launchers add to a log when a rank fails: it stands last and hides the solver's own words.
_BANNER = re.compile(
    r"^(=|-{10,}|YOUR APPLICATION TERMINATED|This typically refers to a problem|Please see the FAQ"
    r"|Primary job +terminated|a non-zero exit code|(mpi(exec|run)|prterun)\S* (detected|noticed) that"
    r"|the job to be terminated\. The first process|\s+Process name:|\s+Exit code:"
    r"|srun: (error: \S+ tasks? \S+: |Terminating|Job step aborted|launch/slurm: )|slurmstepd: error: \*\*\*)"
)
# What a program says that the launcher of another MPI has started, or one that lacks its protocol.
_OTHER_MPI = re.compile(
    r"OMPI was not built with SLURM|PMI_Init returned -1|MPIR_pmi_(?:init|barrier)|pmi_version=1|PMI server not found"
    r"|(?:orte|ompi_rte)_init failed|PMIX ERROR: (?:UNREACHABLE|NOT-FOUND|PMIX_ERR_NOT_FOUND)",
    re.IGNORECASE,
)
_REMEDY = 'use the launcher that belongs to it (launcher.program), or for srun launcher.mpi, such as "pmi2" or "pmix"'
# What preCICE, a backend, or the recorder says where each of several ranks starts it as the only one.
_SERIAL = re.compile(
    r"\bindex\b.* does not match the rank of the passed|process size\b.* does not match the size of the passed"
    r"|starts preCICE as rank 0 of 1 on each of"
)
IS_SERIAL = (
    "it starts preCICE as rank 0 of 1, so that it runs on one rank only: set maximum_ranks = 1, or give it threads"
)


def cause_of(log: Path, ranks: int) -> str | None:
    """Say why ranks did not find each other, where their log shows that, and what settles it."""
    text = end_of_log(log, _LONGEST)
    if ranks > 1 and _SERIAL.search(text):
        return IS_SERIAL
    match = _OTHER_MPI.search(text)
    return match and f"its MPI does not understand the launcher ({match[0]}); {_REMEDY}"


def wrong_size(run: Path, layouts: Mapping[str, Layout], *, since: float = 0.0) -> str | None:
    """Say which participant's MPI saw another number of ranks than the split says, by files not older than a time."""
    files = _rank_files(run)
    for name, layout in layouts.items():
        sizes = {size for path, size in files.get(name_in_files(name), {}).items() if path.stat().st_mtime >= since}
        if not sizes - {layout.ranks}:
            continue
        if cause_of(run / f"{file_name(name)}.log", layout.ranks) == IS_SERIAL:
            return f"{name}: {IS_SERIAL}"
        ranks, counts = plural(layout.ranks, "rank"), " and ".join(map(str, sorted(sizes)))
        does_not = "this MPI does not understand the launcher"
        return f"{name} was to run on {ranks}, but its MPI says {counts}: {does_not}; {_REMEDY}"
    return None


def unmeasured(
    run: Path,
    layouts: Mapping[str, Layout],
    configuration: Path,
    metadata: Mapping[str, Any],
    versions: Mapping[str, str],
) -> str | None:
    """Say whose measurements are missing; profiling files of whom no recorder was in are turned into stores."""
    files_of = _rank_files(run)
    for name, layout in layouts.items():
        files = files_of.get(name_in_files(name), {})
        if not files or any(path.suffix in {".h5", ".spool"} for path in files):
            continue
        stated = {**metadata, "version": versions[name]} if name in versions else metadata
        threads = {name: layout.threads}
        try:
            import_profiling([*files], run / "stores", configuration=configuration, metadata=stated, threads=threads)
        except PreciceLBError as problem:
            return f"{name} ended well, but its profiling files cannot be read: {problem}"
    if silent := [name for name in layouts if name_in_files(name) not in files_of]:
        return (
            f"{' and '.join(silent)} ended well but recorded nothing: start a Python solver with "
            "`python -m precice_lb run solver.py`; any other needs preCICE's profiling, which is on by default"
        )
    return None


def _rank_files(run: Path) -> dict[str, dict[Path, int]]:
    """Find a run's stores and profiling files, with the number of ranks in their names, by `name_in_files`."""
    files_of: dict[str, dict[Path, int]] = {}
    for pattern in _PLACES:
        for path in run.glob(pattern):
            if match := _RANK_FILE.match(path.name):
                who = match["who"] if pattern == _PLACES[0] else name_in_files(match["who"])
                files_of.setdefault(who, {})[path] = int(match["size"])
    return files_of


def explain(record: RunRecord, run: Path, outcome: Outcome, layouts: Mapping[str, Layout]) -> None:
    """Note what the logs say of a failure, and whose they are.

    A participant that was stopped, or that lost its partner, may say so in capitals: it is not to blame.
    """
    logs = {name: run / f"{file_name(name)}.log" for name in record.split}
    lines = {name: reasons(log, layouts[name].ranks) for name, log in logs.items()}
    record.serial = [name for name in lines if IS_SERIAL in lines[name]]
    guilty = [name for name in lines if any(not lost_partner(line) for line in lines[name])]
    record.blamed = guilty or record.blamed
    # The fault first.
    for name in sorted(lines, key=lambda name: name not in record.blamed):
        is_first = name in outcome.participants
        record.reasons += [f"{name}: {line}" for line in lines[name] if is_first or not lost_partner(line)]
    for name in outcome.participants:
        record.log_tail += [f"{name}: {line}" for line in without_banner(log_tail(logs[name]))]
    record.log_tail = record.log_tail or [f"job: {line}" for line in log_tail(run / "job.log")]


def reasons(log: Path, ranks: int = 1) -> list[str]:
    """Return the lines of a log that say why its program failed, the first ones, each once; none where none does.

    They are what was said in capitals (FATAL, ERROR) with what follows such a heading, messages of preCICE and of C++
    exceptions, signals of which a launcher tells, and the last line of a Python traceback; before them their cause,
    where that is known.
    """
    cause = cause_of(log, ranks)
    lines = _TRACEBACK.sub("\0", _COLOURS.sub("", end_of_log(log, _LONGEST)).replace("\0", "")).splitlines()
    kept: list[str] = []
    for number, line in enumerate(lines):
        text, is_exception, exception = line.strip().partition("\0")
        if is_exception:
            kept += [exception] if exception else []
        elif _FAULT.search(text) and not _RULER.match(text) and not (cause == IS_SERIAL and _SERIAL.search(text)):
            below = (line.strip() for line in lines[number + 1 : number + 12]) if _HEADING.search(text) else ()
            kept += [text, *[line for line in below if line and not _RULER.match(line)][:_AFTER_HEADING]]
    kept = list(dict.fromkeys(kept))[:_KEPT]
    if kept and all(_BANNER.match(line) for line in kept):
        words = [text for line in lines if not _BANNER.match(line) and (text := line.strip()) and text not in kept]
        kept = [*words[-_LAST_WORDS:], *kept][:_KEPT]
    return [*filter(None, [cause]), *(line.rpartition("EXIT STRING: ")[2] for line in kept)]


def lost_partner(line: str) -> bool:
    """Whether a line only says that a partner has gone."""
    return _LOST.search(line) is not None


def without_banner(lines: Sequence[str]) -> list[str]:
    """Drop from the end of a log what a launcher adds when a rank fails, unless nothing else is there."""
    return [line for line in lines if not _BANNER.match(line)] or list(lines)
