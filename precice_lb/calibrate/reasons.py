"""The lines of a log that say why a run failed, whatever was printed after them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from precice_lb.calibrate.processes import end_of_log

__all__ = ["lost_partner", "reasons", "without_banner"]

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
    r"|\bAssertion\b.*failed|[Oo]ut [Oo]f [Mm]emory|^Killed$|Bus error|Floating point exception|Illegal instruction"
    r"|exited on signal (?!15\b)\d+|EXIT STRING: .*signal (?!15\b)\d+|^srun: error: .*(?:Killed|core dumped)"
)
# Said by what started the solver: of the solver itself, its last words are kept with it.
_BY_LAUNCHER = re.compile(r"exited on signal \d+|EXIT STRING: |^srun: error: ")
_LAST_WORDS = 2
# An announcement whose message stands in the lines below it.
_HEADING = re.compile(r"FATAL (?:IO )?ERROR\s*:?\s*(?:\([^)]*\))?\s*$|terminate called after")
_RULER = re.compile(r"[^\w]*(?:\[\d+\])?\s*(?:PETSC ERROR:)?[\W_]*$")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:$|:)")
# What a participant says whose partner has gone: it is not to blame.
_LOST = re.compile(
    r"other participant exited with an error|using sockets\) failed with a system error|partner \".*\" is gone"
    r"|Broken pipe|Connection reset by peer|End of file"
)
# What launchers add to a log when a rank fails: it stands last and hides the solver's own words.
_BANNER = re.compile(
    r"^(=|-{10,}|YOUR APPLICATION TERMINATED|This typically refers to a problem|Please see the FAQ"
    r"|Primary job +terminated|a non-zero exit code|mpi(exec|run)\S* (detected|noticed) that"
    r"|the job to be terminated\. The first process|\s+Process name:|\s+Exit code:"
    r"|srun: (error: \S+ tasks? \S+: |Terminating|Job step aborted|launch/slurm: )|slurmstepd: error: \*\*\*)"
)


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
            at = _end_of_traceback(lines, at)
            line = lines[at].strip() if at < len(lines) else ""
            found += [line] if line else []
        elif _SAID.search(line) and not _RULER.match(line):
            found.append(line)
            if _HEADING.search(line):
                following = (each.strip() for each in lines[at + 1 : at + 12])
                found += [each for each in following if each and not _RULER.match(each)][:_AFTER_HEADING]
        at += 1
    found = list(dict.fromkeys(found))[:_KEPT]
    if found and all(_BY_LAUNCHER.search(line) for line in found):
        own = [line.strip() for line in lines if line.strip() and not _is_banner(line) and line.strip() not in found]
        found = [*own[-_LAST_WORDS:], *found][:_KEPT]
    return [line.rpartition("EXIT STRING: ")[2] for line in found]


def lost_partner(line: str) -> bool:
    """Whether a line only says that a partner has gone."""
    return _LOST.search(line) is not None


def _end_of_traceback(lines: list[str], at: int) -> int:
    """Index of the line that names the exception: the first one behind a traceback that is not set in."""
    at += 1
    while at < len(lines) and not _EXCEPTION.match(lines[at]):
        at += 1
    return at


def _is_banner(line: str) -> bool:
    """Whether a line is of what a launcher adds."""
    return _BANNER.match(line) is not None


def without_banner(lines: Sequence[str]) -> list[str]:
    """Drop from the end of a log what a launcher adds when a rank fails, unless nothing else is there."""
    return [line for line in lines if not _is_banner(line)] or list(lines)
