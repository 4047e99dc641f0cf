"""Paths of files on file systems and of objects in buckets.

``Path("s3://bucket/data")`` is ``s3:/bucket/data``, because paths have no double slashes. So a path
whose first part is ``s3:`` is an object. All code can use ``directory / name``, and the path alone
selects the implementation of ``Files``.
"""

import argparse
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_OBJECTS = "s3:"
#: The scheme of a URI. A local path can contain a colon, but not ``://`` after its first word.
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")


def is_object(path: Path) -> bool:
    """Return whether a path is an object or a directory of objects."""
    return path.parts[:1] == (_OBJECTS,)


def uri(path: Path) -> str:
    """Return a path as text, for example ``s3://bucket/key`` for an object."""
    return f"s3://{'/'.join(path.parts[1:])}" if is_object(path) else str(path)


def bucket_and_key(path: Path) -> tuple[str, str]:
    """Return the bucket and the key of an object. The key is "" for the whole bucket."""
    return path.parts[1], "/".join(path.parts[2:])


def absolute(path: Path) -> Path:
    """Return the absolute path without symbolic links. Paths of objects are already absolute."""
    return path if is_object(path) else path.resolve()


def parse_data_directory(text: str) -> Path:
    """Parse the directory of ``--data``: a path, ``file://...`` or ``s3://BUCKET/PREFIX``.

    Raises:
        argparse.ArgumentTypeError: The scheme is not supported.
    """
    matched = _SCHEME.match(text)
    if matched is None:
        return Path(text)
    scheme, parts = matched["scheme"].lower(), urlsplit(text)
    if scheme == "file" and parts.netloc in {"", "localhost"} and parts.path:
        return Path(unquote(parts.path))
    if scheme == "s3" and parts.netloc:
        return Path(f"{_OBJECTS}/{text[matched.end() :]}")
    message = (
        f"{text} is not on a supported file system. Use a local or mounted directory, or "
        "s3://BUCKET/PREFIX. For HDFS, mount its NFS gateway"
    )
    raise argparse.ArgumentTypeError(message)
