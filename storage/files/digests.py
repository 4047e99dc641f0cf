"""Digests, by which a reader notices that a file is not the one that was written.

A digest is XXH3 with 64 bits: it finds damage, and it is not a cryptographic hash. XXH3 hashes
about 10 GB per second, so a reader that needs the whole file pays little for it.
"""

import re
from typing import IO, TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    import pyarrow as pa

#: The name of the algorithm in each digest, so that another one can follow.
_ALGORITHM = "xxh3"
_BLOCK_BYTES = 1 << 20
#: How a JSON object ends that has its own digest.
_OWN_DIGEST = re.compile(rb',"digest":"(' + _ALGORITHM.encode() + rb':[0-9a-f]{16})"\}$')


def digest(content: "bytes | memoryview | pa.Buffer") -> str:
    """Return the digest of ``content``, for example ``xxh3:2d06800538d394c2`` for no bytes."""
    return f"{_ALGORITHM}:{xxhash.xxh3_64_hexdigest(content)}"


def file_digest(file: "IO[bytes] | pa.NativeFile") -> str:
    """Return the digest of the rest of an open file.

    The file is read and not mapped: a file that is cut off while it is mapped kills the process.
    """
    hashed = xxhash.xxh3_64()
    while block := file.read(_BLOCK_BYTES):
        hashed.update(block)
    return f"{_ALGORITHM}:{hashed.hexdigest()}"


def with_digest(json_object: bytes) -> bytes:
    """Return a JSON object that is not empty with its digest as its last field, ``digest``."""
    return json_object[:-1] + f',"digest":"{digest(json_object)}"}}'.encode()


def without_digest(content: bytes) -> bytes:
    """Return the JSON object that ``with_digest`` was called with.

    Content without a digest stays as it is: files of earlier versions have none.

    Raises:
        ValueError: The content is not what was written.
    """
    found = _OWN_DIGEST.search(content)
    if found is None:
        return content
    json_object = content[: found.start()] + b"}"
    if digest(json_object) != found[1].decode():
        message = "the content is not what was written, because its digest differs"
        raise ValueError(message)
    return json_object
