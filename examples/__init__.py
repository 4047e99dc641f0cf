"""Three examples. `./oriel example NAME` runs one. See docs/get-started/examples.md.

Each has a topology file for `oriel run` and a function of ``logs`` that creates its records.
"""
