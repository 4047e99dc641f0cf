"""Write docs/reference/error-codes.md from the problems of the service (``tools.openapi``)."""

from collections.abc import Iterator

from oriel.app.contract import ALL_KINDS
from tools.api_pages.remedies import REMEDIES

_INTRODUCTION = """\
# Error codes

<!-- Written by `python -m tools.openapi`. -->

If a request fails, the body of the response is a problem document (RFC 9457). Use `code` in
your program, because `code` never changes its meaning. Each code has one `title`. The `detail`
describes this request: what is wrong, with the value, and what you can do. Do not parse `title`
and `detail`, because their texts can change.

For example, a read of a store that does not exist returns `404`:

```json
{
  "type": "urn:oriel:problem:unknown-store",
  "title": "The store does not exist",
  "status": 404,
  "detail": "store 'departure' does not exist. The stores are: departures.",
  "instance": "/v1/stores/departure/latest/EWR",
  "code": "unknown-store"
}
```

If a retry can help, the response has the header field `Retry-After` in seconds. The
[Python client](python-client.md#errors) sends such requests again by itself. It raises an
exception for other errors.

## All codes
"""


def error_page() -> str:
    """Return the whole page."""
    kinds = sorted(set(ALL_KINDS), key=lambda kind: (kind.status, kind.code))
    lines = [_INTRODUCTION, "| status | code | title | retry |", "|---|---|---|---|"]
    for kind in kinds:
        link = f"[`{kind.code}`](#{kind.code})"
        lines.append(f"| {kind.status} | {link} | {kind.title} | {_retry(retry=kind.retry)} |")
    for status in dict.fromkeys(kind.status for kind in kinds):
        lines += ["", f"## Status {status}"]
        for kind in kinds:
            if kind.status == status:
                lines += ["", *_section(kind.code, kind.title)]
    return "\n".join(lines) + "\n"


def _section(code: str, title: str) -> Iterator[str]:
    cause, action = REMEDIES[code]
    yield f"### `{code}`"
    yield ""
    yield f"- **Title:** {title}."
    yield f"- **Cause:** {cause}"
    yield f"- **What to do:** {action}"


def _retry(*, retry: bool) -> str:
    return "yes" if retry else "no"
