"""Mutation tests: small bugs are planted at random places of the package, and its tests are to fail.

``make mutants`` runs ``python -m mutants`` in ``tests/``.
"""
