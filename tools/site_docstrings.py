"""Extension of griffe for the site: it hides internal methods and reads ``Example:`` as code."""

import re
from typing import Any

import griffe

#: Methods of public classes that only the pipeline calls.
INTERNAL = frozenset(
    {
        "Aggregate.column_type",
        "Aggregate.of",
        "Aggregate.of_changes",
        "Aggregate.of_joined",
        "Aggregate.output_type",
        "Aggregate.parts",
        "Aggregate.rule",
        "Consumed.is_json",
        "EmitStrategy.emits",
        "JoinWindows.allowed_lateness_ms",
        "JoinWindows.wait_ms",
        "KTable.as_table",
        "KTable.handed_over",
        "KTable.looked_up",
        "SessionWindows.is_late",
        "SessionWindows.last_end_ms",
        "SlidingWindows.is_late",
        "SlidingWindows.last_end_ms",
        "SourceTable.updates",
        "TimeWindows.is_late",
        "TimeWindows.last_end_ms",
        "Topology.readers_of",
        "Topology.sources",
        "Topology.units",
        "Topology.waves",
        "VersionedTable.newest",
    }
)
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class PublicDocstrings(griffe.Extension):
    """Change loaded classes before pages are made from them."""

    def on_object(self, *, obj: griffe.Object, **_rest: Any) -> None:
        """Rename the section, because griffe knows the plural only, and hide methods."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub("Examples:", obj.docstring.value)
        if obj.is_class:
            for name in [name for name in obj.members if f"{obj.name}.{name}" in INTERNAL]:
                obj.del_member(name)
