"""Parse JSON values as Spark does.

``BlockReader`` parses many lines at once with Arrow. ``suspicious_lines`` finds the lines that
Arrow could read differently from Spark. ``decode_line`` parses one suspicious line. Arrow reads
some types as others: ``json_type`` returns them, and ``converted`` converts their columns. For
maps, ``maps_as_lists`` rewrites the lines before.
"""

from oriel.pipeline.decoding.json_lines.arrow_json import BlockReader
from oriel.pipeline.decoding.json_lines.arrow_values import converted, json_type, types_in
from oriel.pipeline.decoding.json_lines.lines import decode_line
from oriel.pipeline.decoding.json_lines.map_objects import has_map, maps_as_lists
from oriel.pipeline.decoding.json_lines.suspicious import suspicious_lines

__all__ = [
    "BlockReader",
    "converted",
    "decode_line",
    "has_map",
    "json_type",
    "maps_as_lists",
    "suspicious_lines",
    "types_in",
]
