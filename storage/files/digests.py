"""Digests that detect damaged files.

A digest is a 64-bit XXH3 hash, which is not cryptographic. XXH3 hashes about 10 GB per second, so
a reader that needs the whole file pays little for the check.
"""

import re
from typing import IO, TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    import pyarrow as pa

#: The name of the algorithm in each digest, so that another one can follow.
_ALGORITHM = "xxh3"
_BLOCK_BYTES = 1 << 20
#: The end of a JSON object that contains its own digest.
_OWN_DIGEST = re.compile(rb',"digest":"(' + _ALGORITHM.encode() + rb':[0-9a-f]{16})"\}$')


def digest(content: "bytes | memoryview | pa.Buffer") -> str:
    """Return the digest of ``content``, for example ``xxh3:2d06800538d394c2`` for no bytes."""
    return f"{_ALGORITHM}:{xxhash.xxh3_64_hexdigest(content)}"


def file_digest(file: "IO[bytes] | pa.NativeFile") -> str:
    """Return the digest of an open file, from its current position to its end.

    The file is read and not mapped, because truncation of a mapped file kills the process.
    """
    hashed = xxhash.xxh3_64()
    while block := file.read(_BLOCK_BYTES):
        hashed.update(block)
    return f"{_ALGORITHM}:{hashed.hexdigest()}"


def with_digest(json_object: bytes) -> bytes:
    """Add the digest of a non-empty JSON object as its last field, ``digest``."""
    return json_object[:-1] + f',"digest":"{digest(json_object)}"}}'.encode()


def without_digest(content: bytes) -> bytes:
    """Return the JSON object that was passed to ``with_digest``.

    Content without a digest is returned unchanged, because earlier versions wrote no digests.

    Raises:
        ValueError: The digest does not match the content.
    """
    found = _OWN_DIGEST.search(content)
    if found is None:
        return content
    json_object = content[: found.start()] + b"}"
    if digest(json_object) != found[1].decode():
        message = "the content is not what was written, because its digest differs"
        raise ValueError(message)
    return json_object
