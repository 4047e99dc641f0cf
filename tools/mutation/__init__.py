"""Mutation tests: change the product in one place, and see whether a test fails.

``targets`` names the modules, ``mutants`` changes them, ``runs`` tests the changes, and ``page``
writes docs/contributing/mutation.md. ``python -m tools.mutation`` runs everything.
"""
