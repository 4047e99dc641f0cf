"""Extension of griffe for the site.

It hides internal methods, reads ``Example:`` as code, links citations of rules and guarantees, and
shows the reads of ``oriel.client`` as methods of the stores.
"""

import re
from typing import Any

import griffe

#: Methods of public classes that only the pipeline calls.
INTERNAL = frozenset(
    {
        "Aggregate.column_type",
        "Aggregate.of",
        "Aggregate.of_changes",
        "Aggregate.output_type",
        "Aggregate.parts",
        "Aggregate.rule",
        "Aggregate.with_lineage",
        "Consumed.is_json",
        "EmitStrategy.emits",
        "JoinWindows.allowed_lateness_ms",
        "JoinWindows.reach_ms",
        "JoinWindows.wait_ms",
        "KTable.as_table",
        "KTable.handed_over",
        "KTable.is_windowed",
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
        "Topology.levels",
        "VersionedTable.newest",
    }
)
#: Results of the descriptors in ``oriel.client.stores``, by the type of the read.
_RESULTS = {
    "_One": "{}",
    "_Many": "Results[{}]",
    "_Followed": "Iterator[Change[{}]]",
    "_AsyncOne": "{}",
    "_AsyncMany": "AsyncResults[{}]",
    "_AsyncFollowed": "AsyncIterator[Change[{}]]",
}
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
_CITATION = re.compile(r"\b(semantics|guarantees)\.md#([\w-]+)")
#: What a page cites, and the page with its directory. The links start at the root of docs/.
_CITED = {
    "semantics": ("rule", "/reference/semantics.md"),
    "guarantees": ("guarantee", "/concepts/guarantees.md"),
}


class PublicDocstrings(griffe.Extension):
    """Change loaded classes before pages are made from them."""

    def on_object(self, *, obj: griffe.Object, **_rest: Any) -> None:
        """Rename the section, because griffe knows the plural only, add links and hide methods."""
        if obj.docstring is not None:
            text = _EXAMPLE.sub("Examples:", obj.docstring.value)
            obj.docstring.value = _CITATION.sub(_link, text)
        if obj.is_class:
            for name in [name for name in obj.members if f"{obj.name}.{name}" in INTERNAL]:
                obj.del_member(name)
            for name, member in list(obj.members.items()):
                method = _client_method(name, member)
                if method is not None:
                    obj.set_member(name, method)


def _link(citation: re.Match[str]) -> str:
    """Return a Markdown link to the anchor, whose text is the word and number of the citation."""
    word, page = _CITED[citation[1]]
    return f"[{word} {citation[2].replace('-', '.')}]({page}#{citation[2]})"


def _client_method(name: str, member: Any) -> griffe.Function | None:
    """Return the method that a read of ``oriel.client`` is in a store, None for other members."""
    value = getattr(member, "value", None) if member.is_attribute else None
    if not isinstance(value, griffe.ExprCall) or str(value.function) not in _RESULTS:
        return None
    result, is_async = _RESULTS[str(value.function)], str(value.function) == "_AsyncOne"
    (read_name,) = value.arguments
    assert isinstance(read_name, griffe.Expr)
    read = member.modules_collection[read_name.canonical_path]
    # The type is Read[T], PagedRead[T] or Stream[T].
    item = str(read.returns).partition("[")[2].removesuffix("]")
    parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    method = griffe.Function(
        name,
        parameters=griffe.Parameters(*parameters, *list(read.parameters)[1:]),
        returns=result.format(item),
        lineno=member.lineno,
        endlineno=member.endlineno,
    )
    # Each method has its own docstring, because a docstring reads the types of its parent. It is
    # parsed as the docstring of the read, because a docstring without a parser is plain text.
    method.docstring = griffe.Docstring(
        read.docstring.value,
        parent=method,
        parser=read.docstring.parser,
        parser_options=read.docstring.parser_options,
    )
    method.labels |= {"async"} if is_async else set()
    return method
