"""Three examples. `./oriel example NAME` runs one. See docs/get-started/examples.md.

Each is a topology file that `oriel run` takes, and a function of ``logs`` that makes its records.
"""
