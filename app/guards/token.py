"""Create a token for the service, and add its digest to a token file."""

import argparse
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
from filelock import lock_descriptor

from oriel.app.guards.seals import sealed
from oriel.app.guards.tokens import InvalidTokenFile, parse_tokens, read_text

_PREFIX = "oriel_"
_RANDOM_BYTES = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a new token. Exit code 1 if the file cannot be used or has a token with this name."""
    options = _parse(arguments)
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    try:
        count = _change(options, token)
    except (InvalidTokenFile, ValueError) as error:
        sys.stderr.write(f"oriel token: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"oriel token: {options.file}: cannot write the file: {error.strerror}\n")
        return 1
    if options.seal:
        sys.stderr.write(f"{options.file}: tokens={count}, each has a seal\n")
        return 0
    sys.stdout.write(f"{token}\n")
    sys.stderr.write(
        f"{options.file} has the digest of the token. Store the token now, because "
        "it is shown only once.\n"
    )
    return 0


def _change(options: argparse.Namespace, token: str) -> int:
    """Add a token to the file, or only seal the file. Return how many tokens were in it.

    Raises:
        InvalidTokenFile: The file is invalid, or has a token with this name.
        ValueError: The file cannot be sealed.
        OSError: The file cannot be written. It is unchanged.
    """
    # A symbolic link to the file stays a link.
    file = options.file.resolve()
    with _locked(file.parent) as directory:
        old = read_text(file) if file.exists() or options.seal else ""
        known = parse_tokens(options.file, old, check_seals=not options.seal)
        if any(one.access.name == options.name for one in known.values()):
            message = f"{options.file}: token {options.name!r} already exists. Choose another name."
            raise InvalidTokenFile(message)
        new = sealed(old if options.seal else _with_entry(old, token, options))
        _replace(file, new.encode(), directory)
    return len(known)


def _with_entry(text: str, token: str, options: argparse.Namespace) -> str:
    """Append the table of a token. A JSON string is also a TOML string."""
    lines = [
        *([text.rstrip("\n"), ""] if text else []),
        "[[token]]",
        f"name = {orjson.dumps(options.name).decode()}",
        f'sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"',
    ]
    if options.store:
        lines.append(f"stores = {orjson.dumps(options.store).decode()}")
    if options.key_prefix:
        lines.append(f"key_prefixes = {orjson.dumps(options.key_prefix).decode()}")
    if options.days is not None:
        expires = datetime.now(UTC) + timedelta(days=options.days)
        lines.append(f"expires = {expires:%Y-%m-%dT%H:%M:%SZ}")
    return "\n".join(lines) + "\n"


@contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """Open a directory and lock it, so that no token of another ``oriel token`` is lost."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        lock_descriptor(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _replace(file: Path, content: bytes, directory: int) -> None:
    """Replace a file atomically. After a failure, a kill or a power loss, it is old or new."""
    draft = file.with_name(f".{file.name}.draft")
    # A killed process can leave a draft.
    draft.unlink(missing_ok=True)
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as writing:
            if file.exists():
                # The service can run as another user.
                old, new = file.stat(), os.fstat(descriptor)
                if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
            writing.write(content)
            writing.flush()
            os.fsync(descriptor)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    os.fsync(directory)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="oriel token",
        description="Create a token for a service that restricts access, print it once, and add "
        "its digest to a token file. A failure leaves the file unchanged.",
    )
    parser.add_argument(
        "name", nargs="?", help="name of the token in audit lines. Required without --seal"
    )
    parser.add_argument(
        "--file", type=Path, required=True, metavar="FILE",
        help="add the token to this file of `oriel serve --tokens`. A missing file is created",
    )  # fmt: skip
    parser.add_argument(
        "--store", action="append", metavar="NAME",
        help="grant access to this store, or with 'NAME*' to all stores that begin with NAME. Can "
        "be repeated. Default: all stores",
    )  # fmt: skip
    parser.add_argument(
        "--key-prefix", action="append", metavar="TEXT",
        help="grant access to keys with this prefix. Can be repeated. Default: all keys",
    )  # fmt: skip
    parser.add_argument(
        "--days", type=int, metavar="N",
        help="let the token expire after this many days. Default: never",
    )  # fmt: skip
    parser.add_argument(
        "--seal", action="store_true",
        help="seal the tokens of the file after you edited it, and create no token",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if (options.name is None) is not options.seal:
        parser.error("pass the name of a token, or --seal without a name")
    return options


if __name__ == "__main__":
    sys.exit(main())
