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
from precice_lb.plural import plural
from precice_lb.store.schema import name_in_files

# Stores, and preCICE's profiling files, of one rank.
_RANK_FILE = re.compile(r"^(?P<who>.+)-\d+-(?P<size>\d+)(?:\.\d+)?\.(?:h5|spool|txt|json)$")
_PLACES = ("stores/**/*", "case/**/precice-profiling/*", "precice-profiling/*")
# Read of a log: behind the reason, every rank may print a backtrace.
_LONGEST = 4 * 2**20
# Lines of a log that are kept.
_KEPT = 4
# Lines that follow a heading such as "--> FOAM FATAL ERROR:" and say what it announces.
_AFTER_HEADING = 2
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# In capitals: solvers print "continuity errors" and "error norms" in every step.
_SAID = re.compile(
    r"\bFATAL\b|\bERROR\b(?=\s*[:\]!-]|\s*$)|^\W*ERROR\b|what\(\):|terminate called after|Segmentation|SIGSEGV"
    r"|error while loading shared libraries|: (?:command not found|No such file or directory|Permission denied)$"
    r"|\bAssertion\b.*failed|[Oo]ut [Oo]f [Mm]emory|^Killed$|Bus error|Illegal instruction"
    # OpenFOAM announces in every run that it traps them.
    r"|Floating point exception(?! trapping)"
    r"|exited on signal (?!15\b)\d+|EXIT STRING: .*signal (?!15\b)\d+|^srun: error: .*(?:Killed|core dumped)"
)
# Of a solver of which only its launcher tells, its last words are kept, too.
_LAST_WORDS = 2
# An announcement whose message stands in the lines below it.
_HEADING = re.compile(r"FATAL (?:IO )?ERROR\s*:?\s*(?:\([^)]*\))?\s*$|terminate called after")
_RULER = re.compile(r"[^\w]*(?:\[\d+\])?\s*(?:PETSC ERROR:)?[\W_]*$")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:$|:)")
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
    r"OMPI was not built with SLURM|direct launched using \"?srun|PMI_Init returned -1|MPIR_pmi_init|MPIR_pmi_barrier"
    r"|pmi_version=1|PMI2?_(?:Init|Job_GetId|KVS_Get)\b.*(?:fail|error)|PMI server not found|PMI_FD|orte_init failed"
    r"|ompi_rte_init failed|PMIX ERROR: (?:UNREACHABLE|NOT-FOUND|PMIX_ERR_NOT_FOUND)",
    re.IGNORECASE,
)
_MPI_REMEDY = (
    'use the launcher that belongs to it (launcher.program), or for srun launcher.mpi, such as "pmi2" or "pmix"'
)
# What preCICE, a backend, or the recorder says where each of several ranks starts it as the only one.
_SERIAL = re.compile(
    r"\bindex\b.* does not match the rank of the passed|process size\b.* does not match the size of the passed"
    r"|starts preCICE as rank 0 of 1 on each of"
)


def wrong_size(run: Path, layouts: Mapping[str, Layout], *, since: float = 0.0) -> str | None:
    """Say which participant's MPI saw another number of ranks than the split says, by files not older than a time."""
    files = _rank_files(run)
    for name, layout in layouts.items():
        sizes = {size for path, size in files.get(name_in_files(name), {}).items() if path.stat().st_mtime >= since}
        if sizes and sizes != {ranks := layout.ranks}:
            if serial := serial_solver(run / f"{file_name(name)}.log"):
                return f"{name}: {serial}"
            seen = " and ".join(map(str, sorted(sizes)))
            return (
                f"{name} was to run on {plural(ranks, 'rank')}, but its MPI says {seen}: this MPI does not understand "
                f"the launcher; {_MPI_REMEDY}"
            )
    return None


def other_mpi(log: Path) -> str | None:
    """Say that a program was started by the launcher of another MPI, where its log shows that."""
    found = _OTHER_MPI.search(end_of_log(log, _LONGEST))
    return f"its MPI does not understand the launcher ({found[0]}); {_MPI_REMEDY}" if found else None


def serial_solver(log: Path) -> str | None:
    """Say that a program can run on one rank only, where its log shows that, and which key settles it."""
    if not _SERIAL.search(end_of_log(log, _LONGEST)):
        return None
    return (
        "it starts preCICE as rank 0 of 1, so that it runs on one rank only: set maximum_ranks = 1, or give it threads"
    )


def not_measured(run: Path, split: Mapping[str, int]) -> str | None:
    """Say which participants left neither a store nor profiling files."""
    files = _rank_files(run)
    silent = [name for name in split if name_in_files(name) not in files]
    if not silent:
        return None
    return (
        f"{' and '.join(silent)} ended well but recorded nothing: start a Python solver with "
        "`python -m precice_lb run solver.py`; any other needs preCICE's profiling, which is on by default"
    )


def import_profiles(
    run: Path,
    layouts: Mapping[str, Layout],
    configuration: Path,
    metadata: Mapping[str, Any],
    versions: Mapping[str, str],
) -> str | None:
    """Turn the profiling files of participants that no recorder was in into stores; say what is wrong with them."""
    files_of = _rank_files(run)
    for name, layout in layouts.items():
        files = files_of.get(name_in_files(name), {})
        if not files or any(path.suffix in {".h5", ".spool"} for path in files):
            continue
        try:
            stated = {**metadata, "version": versions[name]} if name in versions else metadata
            threads = {name: layout.threads}
            import_profiling([*files], run / "stores", configuration=configuration, metadata=stated, threads=threads)
        except PreciceLBError as problem:
            return f"{name} ended well, but its profiling files cannot be read: {problem}"
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
    said = {}
    for name, log in logs.items():
        lines = reasons(log)
        if name not in outcome.participants:
            lines = [line for line in lines if not lost_partner(line)]
        serial = serial_solver(log) if layouts[name].ranks > 1 else None
        if serial:
            record.serial.append(name)
            lines = [line for line in lines if not _SERIAL.search(line)]
        # The cause, before what it led to.
        said[name] = [*filter(None, [serial or other_mpi(log)]), *lines]
    record.blamed = [name for name in said if any(not lost_partner(line) for line in said[name])] or record.blamed
    # The fault first.
    for name in sorted(said, key=lambda name: name not in record.blamed):
        record.reasons += [f"{name}: {line}" for line in said[name]]
    for name in outcome.participants:
        record.log_tail += [f"{name}: {line}" for line in without_banner(log_tail(logs[name]))]
    if not record.log_tail:
        record.log_tail = [f"job: {line}" for line in log_tail(run / "job.log")]


def reasons(path: Path) -> list[str]:
    """Return the lines of a log that say why its program failed, the first ones, each once; none where none does.

    They are what was said in capitals (FATAL, ERROR) with what follows such a heading, messages of preCICE and of C++
    exceptions, signals, and the last line of a Python traceback.
    """
    lines = _COLOURS.sub("", end_of_log(path, _LONGEST)).splitlines()
    found: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        if line.endswith(_TRACEBACK):
            # Behind it, what is not set in names the exception.
            at = next((end for end in range(at + 1, len(lines)) if _EXCEPTION.match(lines[end])), len(lines))
            found += [line.strip() for line in lines[at : at + 1]]
        elif _SAID.search(line) and not _RULER.match(line):
            found.append(line)
            if _HEADING.search(line):
                following = (each.strip() for each in lines[at + 1 : at + 12])
                found += [each for each in following if each and not _RULER.match(each)][:_AFTER_HEADING]
        at += 1
    found = list(dict.fromkeys(found))[:_KEPT]
    if found and all(_BANNER.match(line) for line in found):
        own = [line.strip() for line in lines if line.strip() and not _BANNER.match(line) and line.strip() not in found]
        found = [*own[-_LAST_WORDS:], *found][:_KEPT]
    return [line.rpartition("EXIT STRING: ")[2] for line in found]


def lost_partner(line: str) -> bool:
    """Whether a line only says that a partner has gone."""
    return _LOST.search(line) is not None


def without_banner(lines: Sequence[str]) -> list[str]:
    """Drop from the end of a log what a launcher adds when a rank fails, unless nothing else is there."""
    return [line for line in lines if not _BANNER.match(line)] or list(lines)
