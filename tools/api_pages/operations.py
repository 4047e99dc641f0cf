"""Write docs/reference/http-api.md from the OpenAPI document."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson

from oriel.app.contract import FORM

#: Tags of the operations in the order of the page, and the titles of the sections.
_SECTIONS = {
    "windows": "Windows",
    "rows": "Rows of stores without windows",
    "stores": "Stores",
    "deadLetters": "Dead letters",
    "sql": "SQL",
    "prometheus": "Prometheus API",
    "health": "Health and metrics",
    "dashboard": "Web pages",
}
#: A parameter of this many operations is described once, above them.
_SHARED_BY = 8
#: Parameters of the position, which every read has.
_POSITION = ("min_version", "min_offset", "wait_ms", "as_of_version", "as_of_ms", "history")
#: Parameters that the example of a request leaves out.
#: Most rows have no versions, so an example with ``at_ms`` would need another store.
_NOT_SHOWN = {*_POSITION, "after", "at_ms"}
_EXAMPLES_TEST = "tests/app/test_documented_examples.py"

_Json = Mapping[str, Any]
_Identity = tuple[str, str]


def api_page(document: _Json) -> str:
    """Return the whole page for the OpenAPI document."""
    operations = list(_operations(document))
    shared = _shared_parameters(operation for _, operation in operations)
    lines = [
        "# HTTP API",
        "",
        "<!-- Written by `python -m tools.openapi`. -->",
        "",
        _introduction(document["info"]["description"]),
        "",
        "To send requests from your browser, open `/docs` of your service. You can also create a",
        "client from `/openapi.json`. For positions, see [Positions and",
        "consistency](../concepts/positions.md). For the client, see [How to query from",
        "Python](../how-to/use-the-python-client.md).",
        "",
        "## Common parameters",
        "",
        *_parameter_table(shared.values()),
        "",
        "## Common errors",
        "",
        "Every request can return these errors. Each operation lists its own errors.",
        "",
        *_error_table(_common_errors(document)),
    ]
    common = _common_errors(document)
    for tag, title in _SECTIONS.items():
        lines += ["", f"## {title}"]
        for request, operation in operations:
            if operation["tags"][0] == tag:
                lines += ["", *_section(request, operation, set(shared), common)]
    lines += ["", "## Fields of the responses", "", *_answers(document["components"]["schemas"])]
    lines += ["## Limits", "", "| limit | unit | default | meaning |", "|---|---|---|---|"]
    for name, limit in sorted(document["x-oriel-limits"].items()):
        text = _cell(limit["description"])
        lines.append(f"| `{name}` | {limit['unit']} | {limit['value']:,} | {text} |")
    return "\n".join(lines) + "\n"


def _introduction(description: str) -> str:
    """Return the description of the document, with a link instead of the reads by store kind."""
    text = re.sub(r"\n- .*", "", _flowing(description))
    sentence = "The window kind of a store decides which reads it has:\n"
    assert sentence in text
    link = "[Reads](reads.md#reads-by-store-kind) lists the\nreads of each kind."
    return text.replace(f"{sentence}\n\n", f"{sentence[:-2]}. {link} ")


def _operations(document: _Json) -> Iterator[tuple[str, _Json]]:
    """Yield each operation with its request line."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {})
            if FORM in body:
                # The description of the GET names it.
                continue
            yield f"{method.upper()} {path}", operation


def _shared_parameters(operations: Iterable[_Json]) -> dict[_Identity, _Json]:
    users: defaultdict[_Identity, int] = defaultdict(int)
    parameters: dict[_Identity, _Json] = {}
    for operation in operations:
        for each in operation.get("parameters", ()):
            users[_identity(each)] += 1
            parameters[_identity(each)] = each
    return {one: parameters[one] for one in users if users[one] >= _SHARED_BY}


def _identity(parameter: _Json) -> _Identity:
    return parameter["name"], parameter["description"]


def _section(
    request: str, operation: _Json, shared: set[_Identity], common: set[tuple[str, str]]
) -> Iterator[str]:
    """Yield request line, description, parameters, example and errors of an operation."""
    yield f"### {operation['summary']}"
    yield ""
    yield f"`{request}`"
    yield ""
    yield _flowing(operation["description"])
    if operation.get("parameters"):
        yield ""
        yield from _parameter_table(operation["parameters"], shared)
    if "requestBody" in operation:
        yield ""
        is_list = isinstance(_body_example(operation), list)
        yield f"The body is a JSON {'list of keys' if is_list else 'object with the query'}."
    yield ""
    yield from _example(request, operation)
    own = [error for error in _errors(operation) if error not in common]
    if own:
        yield ""
        yield from _error_table(own)


def _parameter_table(
    parameters: Iterable[_Json], shared: Collection[_Identity] = ()
) -> Iterator[str]:
    """Yield a row per parameter. A shared one has only the first sentence of its description."""
    yield "| parameter | in | type | default | meaning |"
    yield "|---|---|---|---|---|"
    has_position = False
    for each in parameters:
        is_shared = _identity(each) in shared
        if is_shared and each["name"] in _POSITION:
            has_position = True
            continue
        text = _cell(each["description"])
        yield (
            f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} "
            f"| {_default(each['schema'])} | {_first_sentence(text) if is_shared else text} |"
        )
    if has_position:
        names = ", ".join(f"`{name}`" for name in _POSITION)
        yield f"| {names} | query | | | See [common parameters](#common-parameters) |"


def _default(schema: _Json) -> str:
    default = schema.get("default", "")
    text = default if isinstance(default, str) else orjson.dumps(default).decode()
    return f"`{text}`" if text else ""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0]


def _example(request: str, operation: _Json) -> Iterator[str]:
    """Yield an example request, and its response if it is not a web page."""
    media_type, content = next(iter(operation["responses"]["200"]["content"].items()))
    example = content.get("example", content.get("x-oriel-example"))
    if example is None:
        yield f"For example, open `http://localhost:8080{request.split()[1]}` in your browser."
        return
    store = example.get("store") if isinstance(example, dict) else None
    yield f"<!-- run by {_EXAMPLES_TEST} -->"
    yield "```sh"
    body = ""
    if "requestBody" in operation:
        shown = _body_example(operation)
        # One key is enough for an example.
        shown = shown[:1] if isinstance(shown, list) else shown
        body = f"-d '{_one_line(shown)}' "
    yield f"curl {body}'localhost:8080{_target(request, operation, store)}'"
    yield "```"
    yield ""
    answer = content["schema"]
    if "$ref" in answer:
        yield f"You receive {_article(_type(answer))}:"
    else:
        yield f"You receive a response of the type `{media_type}`:"
    yield ""
    yield "```json" if media_type == "application/json" else "```text"
    yield _compact(example).rstrip() if isinstance(example, dict) else example.rstrip()
    yield "```"


def _body_example(operation: _Json) -> Any:
    return operation["requestBody"]["content"]["application/json"]["example"]


def _target(request: str, operation: _Json, store: str | None) -> str:
    """Return path and query with the examples of the parameters."""
    path, query = request.split()[1], []
    for each in operation.get("parameters", ()):
        value = each.get("example")
        if each["in"] == "path":
            value = store if each["name"] == "store" and store else value
            path = path.replace(f"{{{each['name']}}}", quote(str(value), safe=""))
        elif value is not None and each["name"] not in _NOT_SHOWN:
            value = value[0] if isinstance(value, list) else value
            query.append(f"{each['name']}={quote(str(value), safe='')}")
    return path + (f"?{'&'.join(query)}" if query else "")


def _compact(value: Any, indent: str = "") -> str:
    """Return JSON with an object or list on one line if it fits."""
    line = _one_line(value)
    if len(indent) + len(line) <= 88 or not isinstance(value, dict | list):
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{_one_line(name)}: {_compact(one, inner)}" for name, one in value.items()]
        return "{\n" + ",\n".join(f"{inner}{part}" for part in parts) + f"\n{indent}}}"
    parts = [_compact(one, inner) for one in value]
    return "[\n" + ",\n".join(f"{inner}{part}" for part in parts) + f"\n{indent}]"


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        parts = (f"{_one_line(name)}: {_one_line(one)}" for name, one in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_one_line, value))}]"
    return orjson.dumps(value).decode()


def _errors(operation: _Json) -> list[tuple[str, str]]:
    """Return status and code of the operation's errors."""
    found = []
    for status, response in operation["responses"].items():
        content = response.get("content", {}).get("application/problem+json", {})
        found += [(status, code) for code in content.get("examples", {})]
    return found


def _common_errors(document: _Json) -> set[tuple[str, str]]:
    """Return status and code of the errors of every operation."""
    guards = document["components"]["responses"]
    # The 503 of the health checks has the body of 200.
    found = [set(_errors(one)) for _, one in _operations(document)]
    every = set.intersection(*(one for one in found if any(status == "503" for status, _ in one)))
    return every | set(_errors({"responses": guards}))


def _error_table(errors: Iterable[tuple[str, str]]) -> Iterator[str]:
    codes: defaultdict[str, list[str]] = defaultdict(list)
    for status, code in sorted(set(errors)):
        codes[status].append(f"[`{code}`](error-codes.md#{code})")
    yield "| status | errors |"
    yield "|---|---|"
    for status, links in codes.items():
        yield f"| {status} | {', '.join(links)} |"


def _answers(schemas: _Json) -> Iterator[str]:
    """Yield the fields of each object that a response can have."""
    for name, schema in schemas.items():
        fields = schema.get("properties")
        yield f"### {name}"
        yield ""
        if "description" in schema:
            yield _flowing(schema["description"])
            yield ""
        if not fields:
            yield f"Type: {_type(schema)}."
            yield ""
            continue
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        for field, described in fields.items():
            text = _cell(described.get("description", ""))
            yield f"| `{field}` | {_type(described)} | {text} |"
        yield ""


def _article(name: str) -> str:
    return f"an {name}" if name[1] in "AEIOU" else f"a {name}"


def _type(schema: _Json) -> str:
    """Return a type in a few words, for an object its name as a link."""
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
    """Return a description for the page, with names of query parameters as code, not as HTML."""
    return re.sub(r"(?<!`)<(\w+)>(?!`)", r"`<\1>`", text.strip())


def _cell(text: str) -> str:
    return _flowing(text).replace("|", "\\|").replace("\n", " ")
