"""Parse JSON values as Spark does.

``BlockReader`` parses many lines at once with Arrow. ``suspicious_lines`` finds the lines that
Arrow could read differently from Spark. ``decode_line`` parses one suspicious line.
"""

from oriel.pipeline.decoding.json_lines.arrow_json import BlockReader, infinite_rows
from oriel.pipeline.decoding.json_lines.lines import decode_line
from oriel.pipeline.decoding.json_lines.suspicious import suspicious_lines

__all__ = ["BlockReader", "decode_line", "infinite_rows", "suspicious_lines"]
