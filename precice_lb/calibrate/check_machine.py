"""Whether a study's [machine] speaks of what the study has, and its budget of what the machine has."""

from __future__ import annotations

from precice_lb.calibrate.study import Study
from precice_lb.calibrate.versions import machine_of, names_of
from precice_lb.exceptions import StudyError
from precice_lb.plugins import choices
from precice_lb.plural import plural


def check_machine(study: Study) -> None:
    """Refuse unknown versions, ranks with more GPUs than a node, and more to split than all kinds of nodes have."""
    known = names_of(study)
    for field, entries in study.machine:
        for key in entries if isinstance(entries, dict) else ():
            if ":" in key and key not in known:
                raise StudyError(f"machine.{field}: unknown version {key!r}{choices(key, known)}")
    section = machine_of(study)
    demands = None if section is None else section.machine()
    for key, gpus in demands.gpus_per_rank.items() if demands is not None else ():
        kind = demands.kind_of(*key.partition(":")[::2]) if demands is not None and demands.kinds else study.machine
        if kind.gpus_per_node is not None and gpus > kind.gpus_per_node:
            raise StudyError(
                f"machine.gpus_per_rank.{key}: expected at most the {kind.gpus_per_node} GPUs of a node, found {gpus}"
            )
    if not study.budget.kinds:
        return
    for field in ("nodes", "kinds"):
        if getattr(study.machine, field) is not None:
            raise StudyError(f"machine.{field}: expected budget.kinds alone to say what nodes there are, found both")
    most = sum(kind.nodes * kind.cores_per_node for kind in study.budget.kinds)
    if study.budget.ranks > most:
        raise StudyError(
            f"budget.{study.unit}s: expected at most the {plural(most, 'core')} of all kinds of nodes, found "
            f"{study.budget.ranks}"
        )
