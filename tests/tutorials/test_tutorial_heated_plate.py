"""The heated plate: coupled runs against one program."""

from __future__ import annotations

import numpy as np
import pytest
from tutorial_helpers import couple_copy, tutorial_modules

WINDOWS, SECONDS = 30, 0.2

case, reference = tutorial_modules("heated-plate", "case", "reference")


@pytest.mark.mpi
@pytest.mark.slow("the elastic tube is compared with one system too")
def test_the_coupling_is_first_order_in_the_window_and_close_to_one_program(mpiexec, tmp_path, on_one_rank):
    edit = (f'size value="{SECONDS}"', f'size value="{SECONDS / 2}"')
    halved = couple_copy(mpiexec, tmp_path / "half", "heated-plate", (1, 1), windows=2 * WINDOWS, edit=edit)
    fluid, solid = case.build_fluid(coarsen=2), case.build_solid(coarsen=2)
    reference.march_together(fluid, solid, WINDOWS * SECONDS)
    for body, once, twice in zip((fluid, solid), on_one_rank("heated-plate")[1], halved, strict=True):
        errors = [np.sqrt(((run["temperature"] - body.temperature) ** 2).mean()) for run in (once, twice)]
        assert errors[0] < 0.02 < 1.0 < np.abs(body.temperature - case.COLD).max()
        assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.3)
