"""What may be added from outside: launchers, readers of foreign measurements, and learners, each by its name.

One line in a table below adds one of our own. Another distribution adds its own by an entry point of the same group::

    [project.entry-points."precice_lb.launchers"]
    flux = "our_site.flux:FluxLauncher"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from precice_lb.exceptions import PluginError


class Registry(Mapping[str, Any]):
    """Objects by name, imported when they are asked for.

    Parameters
    ----------
    group : str
        Of the entry points by which other distributions add theirs.
    builtin : mapping of str to str
        Where ours are, as ``module:name``.
    """

    def __init__(self, group: str, builtin: Mapping[str, str]) -> None:
        self.group = group
        self._builtin = {name: EntryPoint(name, place, group) for name, place in builtin.items()}

    @cached_property
    def _places(self) -> dict[str, EntryPoint]:
        places = dict(self._builtin)
        for point in sorted(entry_points(group=self.group), key=lambda point: point.name):
            # The same distribution may be found twice on the path.
            if places.setdefault(point.name, point).value != point.value:
                raise PluginError(
                    f"{self.group}: expected names of their own for what distributions add, found {point.name!r} twice "
                    f"({places[point.name].value} and {point.value}); rename one, or uninstall its distribution"
                )
        return places

    def __getitem__(self, name: str) -> Any:
        """Return what has the name.

        Raises
        ------
        PluginError
            It cannot be imported.
        """
        # What others add is not looked for where one of ours is wanted.
        place = self._builtin.get(name) or self._places[name]
        try:
            return place.load()
        except (ImportError, AttributeError) as error:
            raise PluginError(
                f"{self.group}: {name!r} cannot be loaded from {place.value}: {error}; repair or uninstall the "
                "distribution that adds it"
            ) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


LAUNCHERS = Registry(
    "precice_lb.launchers",
    {
        "mpiexec": "precice_lb.campaign.launchers.local:MpiexecLauncher",
        "srun": "precice_lb.campaign.launchers.slurm:SrunLauncher",
        "slurm": "precice_lb.campaign.launchers.slurm:SlurmLauncher",
        "template": "precice_lb.campaign.launchers.local:TemplateLauncher",
    },
)
"""Subclasses of `precice_lb.campaign.Launcher`, by what ``launcher.name`` of a study says."""

READERS = Registry(
    "precice_lb.readers",
    {
        "csv": "precice_lb.ingest.csv:import_files",
        "cime": "precice_lb.ingest.cime:import_files",
        "extrap": "precice_lb.ingest.extrap:import_files",
    },
)
"""Functions from paths, and options by keyword, to `precice_lb.dataset.Measurements`: the formats of ``import``."""

LEARNERS = Registry(
    "precice_lb.learners",
    {
        "bayes": "precice_lb.models.posterior:BayesRegressor",
        "pmnf": "precice_lb.models.published.normal_form:PMNFRegressor",
        "epmnf": "precice_lb.models.published.normal_form:EPMNFRegressor",
        "neural": "precice_lb.models.published.factorized:NeuralRegressor",
        "factorized": "precice_lb.models.published.factorized:FactorizedRegressor",
    },
)
"""Subclasses of `precice_lb.models.Learner`."""

DEFAULT_LEARNER = "bayes"


def choices(name: str, known: Sequence[str]) -> str:
    """Return what to add to "unknown …": the closest match, if any, and all that is known.

    Parameters
    ----------
    name : str
        What was found.
    known : sequence of str
        What could be expected.
    """
    return f"{close_match(name, known)} (known: {', '.join(known)})"


def close_match(name: str, known: Sequence[str]) -> str:
    """Return "; did you mean …?" where something known is close to ``name``, otherwise nothing.

    Parameters
    ----------
    name, known
        As of `choices`.
    """
    matches = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
