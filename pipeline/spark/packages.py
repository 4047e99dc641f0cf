"""Maven packages of a session: Spark resolves them once, and later receives the jar files.

At every start, Spark first runs Ivy for the packages. This needs up to a second, and the result is
the same as for the previous start.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import orjson

from oriel.storage import replace_file

_PACKAGES = "spark.jars.packages"
_EXCLUDES = "spark.jars.excludes"
_IVY = "spark.jars.ivy"
_JARS = "spark.jars"


def with_resolved_packages(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with jars instead of packages, if Spark has resolved them before.

    If a jar does not exist any more, Spark resolves the packages again.
    """
    record = _record(settings)
    if record is None:
        return dict(settings)
    try:
        jars: list[str] = orjson.loads(record.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return dict(settings)
    if not jars or not all(Path(jar).is_file() for jar in jars):
        return dict(settings)
    kept = {name: value for name, value in settings.items() if name not in {_PACKAGES, _EXCLUDES}}
    return {**kept, _JARS: ",".join(jars)}


def remember_packages(settings: Mapping[str, str], jars: str) -> None:
    """Store the jars to which Spark resolved the packages of ``settings``.

    ``jars`` are addresses of files, separated by commas.
    """
    record = _record(settings)
    if record is None or not record.parent.is_dir():
        return
    paths = [unquote(urlsplit(jar).path) for jar in jars.split(",") if jar]
    if all(Path(path).is_file() for path in paths):
        with suppress(OSError):  # the directory can be read-only
            replace_file(record, orjson.dumps(paths), sync=False)


def _record(settings: Mapping[str, str]) -> Path | None:
    """Return the file in Ivy's directory that stores the jars, or None without packages."""
    if not settings.get(_PACKAGES):
        return None
    words = [settings.get(name, "") for name in (_PACKAGES, _EXCLUDES, _JARS)]
    key = hashlib.sha256(orjson.dumps(words)).hexdigest()[:16]
    return Path(settings[_IVY]) / f"oriel-{key}.json"
