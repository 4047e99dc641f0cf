"""Write docs/reference/http-api.md from the OpenAPI document (``tools.openapi``)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

#: Tags of the operations in the order of the page, and what the section is called.
_SECTIONS = {
    "windows": "Windows",
    "rows": "Rows of stores without windows",
    "stores": "Stores",
    "deadLetters": "Dead letters",
    "health": "Health and metrics",
    "dashboard": "Web pages",
}
#: A parameter of so many operations stands once, above them.
_SHARED_BY = 8

_Json = Mapping[str, Any]


def api_page(document: _Json) -> str:
    """The whole page; ``document`` is the OpenAPI document."""
    operations = list(_operations(document))
    users: defaultdict[tuple[str, str], int] = defaultdict(int)
    parameters: dict[tuple[str, str], _Json] = {}
    for _, operation in operations:
        for each in operation.get("parameters", ()):
            identity = (each["name"], each["description"])
            users[identity] += 1
            parameters[identity] = each
    shared = {identity: parameters[identity] for identity in users if users[identity] >= _SHARED_BY}
    lines = [
        "# The HTTP interface",
        "",
        "`python -m tools.openapi` writes this page and `/openapi.json` from the operations of the",
        "service. Open `/docs` of a service to try the requests.",
        "",
        _flowing(document["info"]["description"]),
        "",
        "## Common parameters",
        "",
        *_parameter_table(shared.values()),
    ]
    for tag, title in _SECTIONS.items():
        lines += ["", f"## {title}"]
        for request, operation in operations:
            if operation["tags"][0] == tag:
                lines += ["", *_section(request, operation, set(shared))]
    lines += ["", "## Fields of the responses", "", *_answers(document["components"]["schemas"])]
    lines += ["", "## Problems", "", *_problems(document)]
    lines += ["", "## Limits", "", "| limit | unit | value | |", "|---|---|---|---|"]
    for name, limit in sorted(document["x-oriel-limits"].items()):
        text = _cell(limit["description"])
        lines.append(f"| `{name}` | {limit['unit']} | {limit['value']:,} | {text} |")
    return "\n".join(lines) + "\n"


def _operations(document: _Json) -> Iterator[tuple[str, _Json]]:
    """Each operation with its request line."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def _section(request: str, operation: _Json, shared: set[tuple[str, str]]) -> Iterator[str]:
    yield f"### {operation['summary']}"
    yield ""
    yield f"`{request}`"
    yield ""
    yield _flowing(operation["description"])
    parameters = operation.get("parameters", ())
    own = [each for each in parameters if (each["name"], each["description"]) not in shared]
    if own:
        yield ""
        yield from _parameter_table(own)
    others = [f"`{each['name']}`" for each in parameters if each not in own]
    answer = operation["responses"]["200"].get("content", {}).get("application/json", {})
    facts = []
    if others:
        facts.append(f"Also: {', '.join(others)}.")
    if "requestBody" in operation:
        facts.append("Body: a JSON list of keys.")
    if "schema" in answer and "$ref" in answer["schema"]:
        facts.append(f"Response: {_type(answer['schema'])}.")
    if facts:
        yield ""
        yield " ".join(facts)


def _parameter_table(parameters: Any) -> Iterator[str]:
    yield "| parameter | in | type | default | |"
    yield "|---|---|---|---|---|"
    for each in parameters:
        default = each["schema"].get("default")
        yield (
            f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} "
            f"| {'' if default is None else f'`{default}`'} | {_cell(each['description'])} |"
        )


def _answers(schemas: _Json) -> Iterator[str]:
    """The fields of each object that an answer may hold."""
    for name, schema in schemas.items():
        fields = schema.get("properties")
        yield f"### {name}"
        yield ""
        if "description" in schema:
            yield _flowing(schema["description"])
            yield ""
        if not fields:
            yield _type(schema)
            yield ""
            continue
        yield "| field | type | |"
        yield "|---|---|---|"
        for field, described in fields.items():
            text = _cell(described.get("description", ""))
            yield f"| `{field}` | {_type(described)} | {text} |"
        yield ""


def _problems(document: _Json) -> Iterator[str]:
    """Each code with its status and title, in the order of the status."""
    known = set()
    responses = [
        (status, response)
        for _, operation in _operations(document)
        for status, response in operation["responses"].items()
    ]
    for status, response in [*responses, *document["components"].get("responses", {}).items()]:
        content = response.get("content", {}).get("application/problem+json", {})
        for code, example in content.get("examples", {}).items():
            known.add((status, code, example["value"]["title"]))
    yield "| status | `code` | |"
    yield "|---|---|---|"
    for status, code, title in sorted(known):
        yield f"| {status} | `{code}` | {title} |"


def _type(schema: _Json) -> str:
    """A type in a few words; of an object of ours its name, as a link."""
    match schema:
        case {"$ref": reference}:
            name = reference.rsplit("/", 1)[1]
            words = f"[{name}](#{name.lower()})"
        case {"enum": values}:
            words = ", ".join(f"`{value}`" for value in values)
        case {"anyOf": types}:
            words = " or ".join(_type(each) for each in types)
        case {"type": "array"}:
            words = f"list of {_type(schema.get('items', {}))}"
        case {"type": kind, "format": form}:
            words = f"{kind} ({form})"
        case _:
            words = schema.get("type", "any")
    return words


def _flowing(text: str) -> str:
    """Text of a description as a page has it: a name of a query parameter is no HTML."""
    return re.sub(r"(?<!`)<(\w+)>(?!`)", r"`<\1>`", text.strip())


def _cell(text: str) -> str:
    return _flowing(text).replace("|", "\\|").replace("\n", " ")
