"""The micro problem behind each finite element of the bar: what the Micro Manager runs."""

from cell import cell, effective
from micro_manager import MicroSimulationInterface


class MicroSimulation(MicroSimulationInterface):
    """A cell whose grain follows the temperature at once, so that it has no state of its own."""

    def __init__(self, sim_id):
        self._sim_id = sim_id

    def solve(self, macro_data, dt):
        return {"Conductivity": effective(cell(macro_data["Temperature"]))}

    def get_state(self):
        return None

    def set_state(self, state):
        pass

    def get_global_id(self):
        return self._sim_id

    def set_global_id(self, global_id):
        self._sim_id = global_id
