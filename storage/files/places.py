"""Where files are: on a file system of this machine, or objects of a bucket.

``Path("s3://bucket/data")`` is ``s3:/bucket/data``, as paths have no double slashes. So a path
whose first part is ``s3:`` is an object's; all code goes on with ``folder / name``, and which form
of files is meant is seen by the path alone.
"""

import argparse
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_OBJECTS = "s3:"
#: What a URI begins with. A local path may have a colon, but not two slashes behind its first.
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")


def is_object(path: Path) -> bool:
    """Whether a path is that of an object, or of a folder of objects."""
    return path.parts[:1] == (_OBJECTS,)


def uri(path: Path) -> str:
    """A path as libraries and people write it: ``s3://bucket/key`` for an object."""
    return f"s3://{'/'.join(path.parts[1:])}" if is_object(path) else str(path)


def bucket_and_key(path: Path) -> tuple[str, str]:
    """The bucket of an object, and its key in it ("" for the whole bucket)."""
    return path.parts[1], "/".join(path.parts[2:])


def absolute(path: Path) -> Path:
    """The path from the root, without links; that of an object is so already."""
    return path if is_object(path) else path.resolve()


def data_folder(text: str) -> Path:
    """Read the folder that ``--data`` names: a path, ``file://`` or ``s3://BUCKET/PREFIX``.

    Raises:
        argparse.ArgumentTypeError: it is on no file system that data can be on.
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
