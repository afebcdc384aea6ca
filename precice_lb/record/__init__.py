"""The drop-in ``Participant``, its recorder, and ``run`` for unchanged solvers.

Importing this package loads nothing: a solver sets up its threads and its MPI before it imports preCICE.
"""
