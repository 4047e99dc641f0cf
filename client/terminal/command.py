"""The command line of ``oriel get``."""

import argparse
import csv
import io
import json
import os
import re
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from itertools import islice
from typing import Any

from oriel.client.clients import Client
from oriel.client.errors import NotAllowed, OrielError, ServiceUnreachable, UnknownStore
from oriel.client.paging import RowPaging, Selection, in_form
from oriel.client.protocol import CSV, NDJSON, PAGE_SIZE_MAX
from oriel.client.records import Row, Window, json_of
from oriel.client.results import Results
from oriel.client.row_reads import get
from oriel.client.stores import KeyValueStoreClient, Store, VersionedStoreClient, WindowStoreClient
from oriel.client.terminal.tables import (
    items_of_keys_table,
    printable,
    stores_table,
    table,
    time_of,
    versions_table,
    windows_table,
)
from oriel.client.transport import Retries

TOKEN_VARIABLE = "ORIEL_TOKEN"  # noqa: S105 - the name of it

#: Clears the terminal and puts the cursor at its upper left.
_CLEAR = "\x1b[H\x1b[2J"
_EVERY_S = 1.0
#: Keys that are compared with a mistyped key.
_KEYS_LOOKED_AT = 1_000
_NEAR_MAX = 5
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_DESCRIPTION = (
    "Show the stores of a running service, the keys of a store, or the newest windows or versions "
    "of a key. Without windows, show the row of the key. Each numeric aggregate of windows is also "
    "drawn as a line of bars."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print stores, keys or windows. Return exit code 1 if they or the service do not exist."""
    options = _parse(arguments)
    # People wait at a terminal, so the command soon reports an unavailable service. With --watch,
    # it waits longer, because the service can restart.
    retries = Retries() if options.watch else Retries(attempts=2, longest_pause_s=2)
    try:
        token = os.environ.get(TOKEN_VARIABLE)
        verify = True if options.ca is None else _trust(options.ca)
        with Client(options.url, token=token, retries=retries, verify=verify) as client:
            return _get(client, options)
    except ServiceUnreachable as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return _fail(
                f"{error}. Set --ca to a file with the certificate of the service's authority, and "
                "--url to the host of the certificate"
            )
        return _fail(
            f"{error}. Check that `oriel serve` runs there, or set --url to another address"
        )
    except NotAllowed as error:
        reason = str(error).removesuffix(".")
        return _fail(f"{reason}. Set the environment variable {TOKEN_VARIABLE} to a valid token")
    except (OrielError, ValueError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel get", description=_DESCRIPTION)
    parser.add_argument("store", nargs="?", help="name of the store. Without it, list the stores")
    parser.add_argument("key", nargs="?", help="key in the store. Without it, list the keys")
    parser.add_argument(
        "--url", default="http://127.0.0.1:8080", metavar="URL",
        help="send requests to the service at this URL. Default: http://127.0.0.1:8080",
    )  # fmt: skip
    parser.add_argument(
        "--ca", metavar="FILE",
        help="trust the certificate authorities of this PEM file. Default: the public authorities",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="time_from", metavar="TIME",
        help="show only windows that start, or versions that were valid, at this time or later, as "
            "ms since 1970 or ISO 8601. A time without an offset is UTC",
    )  # fmt: skip
    parser.add_argument(
        "--to", dest="time_to", metavar="TIME",
        help="show only windows that start, or versions that were valid, at this time or earlier",
    )  # fmt: skip
    parser.add_argument(
        "--at", metavar="TIME",
        help="show the version of the key that was valid at this time, for a store with versions",
    )  # fmt: skip
    parser.add_argument(
        "--where", metavar="CONDITION",
        help='show only windows or rows that meet this condition, for example "flights > 10". '
            "Without a key, it is about the current window of each key, or about the rows",
    )  # fmt: skip
    parser.add_argument(
        "--order-by", metavar="FIELDS",
        help="order windows or rows by these fields, separated by commas. A minus before a field "
            "is the descending order, for example --order-by=-flights",
    )  # fmt: skip
    parser.add_argument(
        "--columns", metavar="NAMES",
        help="show only these aggregates, separated by commas. Default: all",
    )  # fmt: skip
    parser.add_argument(
        "--step", type=_step_ms, metavar="DURATION",
        help="merge tumbling windows to ranges of this length, for example 1m or 1h. If the store "
            "has other aggregates than counts, sums, minima and maxima, set --columns",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=_limit, default=20, metavar="N",
        help=f"show at most this many windows or keys, up to {PAGE_SIZE_MAX:,}. Default: 20",
    )  # fmt: skip
    parser.add_argument(
        "--watch", action="store_true",
        help="show the windows again after each change, with --json only the changed windows",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object per line")
    form.add_argument("--csv", action="store_true", help="print CSV with a header line")
    options = parser.parse_args(arguments)
    if options.watch and (options.key is None or options.csv):
        parser.error("--watch needs a key, and prints a table or --json")
    if (options.time_from or options.time_to or options.at) and options.key is None:
        parser.error("--from, --to and --at need a key")
    if options.at and (options.time_from or options.time_to):
        parser.error("--at is one time. Leave out --from and --to")
    if options.step and options.key is None:
        parser.error("--step needs a key")
    return options


def _trust(file: str) -> ssl.SSLContext:
    """Return a context that trusts the authorities in a PEM file.

    Raises:
        ValueError: the file cannot be read, or has no certificate.
    """
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        reason = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        message = f"--ca {file}: {reason}. Use a PEM file with the authority's certificate"
        raise ValueError(message) from error


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= PAGE_SIZE_MAX:
        return int(text)
    message = f"must be an integer from 1 to {PAGE_SIZE_MAX:,}"
    raise argparse.ArgumentTypeError(message)


def _step_ms(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text, re.ASCII)
    if match and int(match[1]):
        return int(match[1]) * _UNITS_MS[match[2]]
    message = f"must be a number with a unit, for example 30s, 1m or 1h, not {text[:80]!r}"
    raise argparse.ArgumentTypeError(message)


def _get(client: Client, options: argparse.Namespace) -> int:
    if options.store is None:
        return _show_stores(client, options)
    try:
        store = client.store(options.store)
    except UnknownStore:
        names = [one.name for one in client.stores()]
        return _fail(
            f"store {options.store!r} does not exist. {_near(options.store, names, 'stores')}"
        )
    if options.key is None and _selection(options):
        return _show_selected(store, options)
    if options.key is None:
        return _show_keys(store, options)
    if isinstance(store, WindowStoreClient):
        return _show_windows(store, options)
    return _show_row(store, options)


def _show_keys(store: Store, options: argparse.Namespace) -> int:
    keys = store.keys(limit=options.limit, page_size=options.limit)
    if _form(options):
        return _write_pages(keys, _form(options))
    return _print("".join(f"{printable(key)}\n" for key in keys))


def _selection(options: argparse.Namespace) -> Selection:
    selection: Selection = {}
    if options.columns is not None:
        selection["columns"] = options.columns.split(",")
    if options.where is not None:
        selection["where"] = options.where
    # Ranges are listed from the oldest one on, so an order selects the newest ones.
    order = "-window_start_ms" if options.step and options.order_by is None else options.order_by
    if order is not None:
        selection["order_by"] = order.split(",")
        # With an order, one page has all items that are shown.
        selection["top"] = options.limit
    return selection


def _show_selected(store: Store, options: argparse.Namespace) -> int:
    """Show the selected rows, or the selected current windows of all keys."""
    paging: RowPaging = {"limit": options.limit, "page_size": options.limit, **_selection(options)}
    items: Results[Row] | Results[Window]
    if isinstance(store, WindowStoreClient):
        items = store.current_all(**paging)
    else:
        assert isinstance(store, KeyValueStoreClient)
        items = store.all(**paging)
    if _form(options):
        return _write_pages(items, _form(options))
    found = items.list()
    if not found:
        return _fail(f"no key of store {store.name!r} meets the condition")
    return _print(items_of_keys_table(found) + "\n")


def _show_windows(store: WindowStoreClient, options: argparse.Namespace) -> int:
    if options.at is not None:
        return _fail(f"store {store.name!r} has no versions. Leave out --at")
    bounds = options.time_from, options.time_to
    paging: RowPaging = {"limit": options.limit, "page_size": options.limit, **_selection(options)}
    if options.step is None:
        windows = store.backward_fetch(options.key, *bounds, **paging)
    else:
        windows = store.merged(options.key, *bounds, step_ms=options.step, **paging)
    if options.watch:
        return _watch(store, windows, options)
    if _form(options):
        return _write_pages(windows, _form(options))
    found = windows.list()
    if found:
        return _print(windows_table(found) + "\n")
    within = "" if bounds == (None, None) else " that start within these bounds"
    if options.where is not None:
        return _fail(f"key {options.key!r} has no windows{within} that meet the condition")
    near = _near_keys(store, options)
    return _fail(f"key {options.key!r} has no windows{within} in store {store.name!r}{near}")


def _show_stores(client: Client, options: argparse.Namespace) -> int:
    stores = client.stores()
    if options.csv:
        return _fail("stores cannot be listed as CSV. Use --json")
    if options.json:
        return _print("".join(json.dumps(asdict(store)) + "\n" for store in stores))
    return _print((stores_table(stores) if stores else "the service has no stores yet") + "\n")


def _show_row(store: KeyValueStoreClient, options: argparse.Namespace) -> int:
    if isinstance(store, VersionedStoreClient):
        return _show_versions(store, options)
    if options.watch or options.at or options.time_from or options.time_to or options.step:
        return _fail(
            f"store {store.name!r} has no windows or versions. Leave out --at, --from, --to, "
            "--step and --watch"
        )
    columns = _selection(options).get("columns")
    if _form(options):
        read = get(store.address, options.key, columns=columns)
        body = store.runner.run(in_form(read, _form(options)))
        return _missing_row(store, options) if body is None else _write(body)
    row = store.get(options.key, columns=columns)
    if row is None:
        return _missing_row(store, options)
    values = [time_of(row.timestamp_ms), *row.values()]
    return _print(table(["newest record (UTC)", *map(printable, row)], [values]) + "\n")


def _show_versions(store: VersionedStoreClient, options: argparse.Namespace) -> int:
    """Show the newest versions of a key, or the version that was valid at a time."""
    if options.watch or options.step or options.where or options.order_by:
        return _fail(
            f"store {store.name!r} has versions. Leave out --where, --order-by, --step and --watch"
        )
    bounds = (options.time_from, options.time_to) if options.at is None else (options.at,) * 2
    versions = store.backward_versions(
        options.key, *bounds,
        limit=options.limit, page_size=options.limit, columns=_selection(options).get("columns"),
    )  # fmt: skip
    if _form(options):
        return _write_pages(versions, _form(options))
    found = versions.list()
    if found:
        return _print(versions_table(found) + "\n")
    near = _near_keys(store, options)
    within = "" if bounds == (None, None) else " that was valid then"
    return _fail(f"key {options.key!r} has no version{within} in store {store.name!r}{near}")


def _missing_row(store: KeyValueStoreClient, options: argparse.Namespace) -> int:
    near = _near_keys(store, options)
    return _fail(f"key {options.key!r} has no row in store {store.name!r}{near}")


def _watch(store: WindowStoreClient, windows: Results[Window], options: argparse.Namespace) -> int:
    """Show the windows after each change, in JSON only the changed windows."""
    shown: set[str] = set()
    etag = None
    for _ in _occasions(store, options.key):
        page = windows.page_unless(etag)
        if page is None:
            continue
        etag = page.etag
        if options.json:
            lines = [json.dumps(json_of(window)) for window in reversed(page.items)]
            _print("".join(f"{line}\n" for line in lines if line not in shown))
            shown = set(lines)
        else:
            clear = _CLEAR if sys.stdout.isatty() else ""
            head = f"{printable(options.key)} at version {page.position.version}"
            _print(f"{clear}{head}\n\n{windows_table(page.items) or 'no windows yet'}\n")
    return 0


def _occasions(store: WindowStoreClient, key: str) -> Iterator[None]:
    """Yield when a key can have changed: now, and after each event of a stream.

    If the stream fails, yield every second. This can be an older service, the limit of streams, or
    a proxy that blocks streams. If the service is unavailable, the next read reports it.
    """
    yield
    try:
        for _ in store.watch(key):
            yield
    except OrielError:
        while True:
            time.sleep(_EVERY_S)
            yield


def _form(options: argparse.Namespace) -> str:
    """Return the media type for programs, empty for a table."""
    if options.json:
        return NDJSON
    return CSV if options.csv else ""


def _near(name: str, names: Sequence[str], what: str) -> str:
    """Suggest similar names of stores or keys."""
    near = get_close_matches(name, names, _NEAR_MAX, 0.5) or sorted(names)[:_NEAR_MAX]
    if not near:
        return f"No {what} exist yet"
    return "Did you mean " + " or ".join(printable(repr(one)) for one in near) + "?"


def _near_keys(store: Store, options: argparse.Namespace) -> str:
    keys = store.keys(limit=_KEYS_LOOKED_AT).list()
    return "" if options.key in keys else f". {_near(options.key, keys, 'keys')}"


def _print(text: str) -> int:
    return _write(text.encode("utf-8", "backslashreplace"))


def _write(body: bytes) -> int:
    # As bytes: the terminal's encoding must not change what programs read.
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    return 0


def _write_pages(results: Results[Any], form: str) -> int:
    """Write every page, with one header line for CSV."""
    names = ""
    for body in results.bodies(form):
        text = body.decode()
        if form == CSV and not names:
            # A name may hold a line's end, in quotes.
            reader = csv.reader(io.StringIO(text, newline=""))
            next(reader)
            names = "".join(islice(io.StringIO(text, newline=""), reader.line_num))
        elif names:
            text = text.removeprefix(names)
        _write(text.encode())
    return 0


def _fail(message: str) -> int:
    print(f"oriel get: {message}", file=sys.stderr)
    return 1
