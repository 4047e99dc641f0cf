"""Make a token for the service and put its digest into a token file."""

import argparse
import hashlib
import os
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from oriel.app.guards.tokens import BadTokenFile, read_tokens

_PREFIX = "oriel_"
_RANDOM_BYTES = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a new token, once; exit code 1 where the file can't be used or has the name."""
    options = _parse(arguments)
    try:
        known = read_tokens(options.file) if options.file.exists() else {}
    except BadTokenFile as error:
        sys.stderr.write(f"oriel token: {error}\n")
        return 1
    if any(token.access.name == options.name for token in known.values()):
        sys.stderr.write(f"oriel token: {options.file} has a token {options.name!r} already\n")
        return 1
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    try:
        # Added by one write, so that a service never reads half an entry.
        descriptor = os.open(options.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_entry(token, options))
    except OSError as error:
        sys.stderr.write(f"oriel token: can't write {options.file}: {error.strerror}\n")
        return 1
    sys.stdout.write(f"{token}\n")
    sys.stderr.write(f"{options.file} has its digest; the token itself is shown this once\n")
    return 0


def _entry(token: str, options: argparse.Namespace) -> bytes:
    """The table of a token; texts of JSON are texts of TOML, too."""
    lines = [
        b"\n[[token]]",
        b"name = " + orjson.dumps(options.name),
        b'sha256 = "%b"' % hashlib.sha256(token.encode()).hexdigest().encode(),
    ]
    if options.store:
        lines.append(b"stores = " + orjson.dumps(options.store))
    if options.key_prefix:
        lines.append(b"key_prefixes = " + orjson.dumps(options.key_prefix))
    if options.days is not None:
        expires = datetime.now(UTC) + timedelta(days=options.days)
        lines.append(f"expires = {expires:%Y-%m-%dT%H:%M:%SZ}".encode())
    return b"\n".join(lines) + b"\n"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel token", description=__doc__)
    parser.add_argument("name", help="what audit lines call its bearer")
    parser.add_argument("--file", type=Path, required=True, help="the file for `oriel serve`")
    parser.add_argument(
        "--store", action="append", metavar="NAME",
        help="a store that it reaches, 'NAME*': all that begin so; may be repeated (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--key-prefix", action="append", metavar="TEXT",
        help="what keys must begin with; may be repeated (default: any key)",
    )  # fmt: skip
    parser.add_argument("--days", type=int, metavar="N", help="how long it is good (default: ever)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
