"""Find the rank split of a coupled preCICE simulation: record, calibrate, model, split, report.

``import precice_lb as precice`` gives the whole of preCICE's Python API with a ``Participant`` that records where the
time goes. ``precice_lb.__version__`` is therefore that of the coupling backend, as preCICE's; the version of this
package is ``importlib.metadata.version("precice_lb")``.

Nothing is loaded before it is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precice_lb.campaign import CalibrationDesign as CalibrationDesign
    from precice_lb.campaign import calibrate as calibrate
    from precice_lb.export import export_csv as export_csv
    from precice_lb.export import export_trace as export_trace
    from precice_lb.export import to_dataframe as to_dataframe
    from precice_lb.recommend import recommend_split as recommend_split
    from precice_lb.split import optimize_split as optimize_split
    from precice_lb.watch import watch_run as watch_run

    Participant: Any
    __version__: str

_PUBLIC = {
    "CalibrationDesign": "precice_lb.campaign",
    "calibrate": "precice_lb.campaign",
    "export_csv": "precice_lb.export",
    "export_trace": "precice_lb.export",
    "recommend_split": "precice_lb.recommend",
    "optimize_split": "precice_lb.split",
    "to_dataframe": "precice_lb.export",
    "watch_run": "precice_lb.watch",
    "export": "precice_lb.export",
    "partners": "precice_lb.partners",
    "watch": "precice_lb.watch",
}


def __getattr__(name: str) -> Any:
    """Look up our own functions, then preCICE's API."""
    # Rooms may have been taken out.
    if name in _PUBLIC and importlib.util.find_spec(_PUBLIC[name]) is not None:
        module = importlib.import_module(_PUBLIC[name])
        return module if _PUBLIC[name] == f"{__name__}.{name}" else getattr(module, name)
    private = name.startswith("_") and name != "__version__"
    # A submodule not imported yet is for the import system: no reason to load a backend.
    if private or importlib.util.find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from precice_lb.record.participant import attribute

    try:
        return attribute(name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, nor has preCICE's API") from None


def __dir__() -> list[str]:
    """Names of preCICE's API, if a backend can be loaded, and our own."""
    from precice_lb.exceptions import BackendError
    from precice_lb.record.participant import names

    public = {name for name in globals() if name.startswith("__")}
    public |= {name for name, place in _PUBLIC.items() if importlib.util.find_spec(place) is not None}
    # Notebooks and documentation tools list names: only who uses one of preCICE's gets the error.
    with contextlib.suppress(BackendError):
        public.update(names())
    return sorted(public)
