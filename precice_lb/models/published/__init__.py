"""Learners of papers, as scikit-learn estimators: arrays in, arrays out; to compare with.

Beyond their readings they predict what they like, negative seconds too.
"""
