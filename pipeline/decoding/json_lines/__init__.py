"""JSON values: by Arrow, many lines at once, and one by one where Arrow would read them otherwise.

In come the lines of a block. ``BlockReader`` reads those that Arrow's reader reads as Spark's does;
``suspicious_lines`` says which of them it may not, and ``decode_line`` reads such a line.
"""

from oriel.pipeline.decoding.json_lines.arrow_json import BlockReader, infinite_rows
from oriel.pipeline.decoding.json_lines.lines import decode_line
from oriel.pipeline.decoding.json_lines.suspicious import suspicious_lines

__all__ = ["BlockReader", "decode_line", "infinite_rows", "suspicious_lines"]
