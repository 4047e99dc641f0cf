"""Mutation tests: change the product in one place, and see whether a test fails.

``targets`` says which modules, ``mutants`` makes the changes, ``runs`` tests them, and ``page``
writes docs/contributing/mutation.md. ``python -m tools.mutation`` does all of it.
"""
