"""Counts of odd words and constructions in the texts of the project, per file.

``python -m tools.english`` lowers the stored ceilings, and ``python -m tools.english FILE...``
prints what the guard counts in files.
"""
