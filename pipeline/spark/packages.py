"""Maven packages of a session: resolved by Spark once, then given to it as the files they are.

Spark starts Ivy for the packages at every start, before anything else: up to a second, in which
it finds what it found the time before.
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
    """The settings with jars in the place of packages, where these were resolved before.

    Only if all of the jars are still there: otherwise Spark resolves the packages anew.
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
    """Note what Spark resolved the packages of ``settings`` to: addresses of files, with commas."""
    record = _record(settings)
    if record is None or not record.parent.is_dir():
        return
    paths = [unquote(urlsplit(jar).path) for jar in jars.split(",") if jar]
    if all(Path(path).is_file() for path in paths):
        with suppress(OSError):  # raised where the folder can't be written to
            replace_file(record, orjson.dumps(paths), sync=False)


def _record(settings: Mapping[str, str]) -> Path | None:
    """The file that says what these packages are, in Ivy's folder; None without packages."""
    if not settings.get(_PACKAGES):
        return None
    words = [settings.get(name, "") for name in (_PACKAGES, _EXCLUDES, _JARS)]
    key = hashlib.sha256(orjson.dumps(words)).hexdigest()[:16]
    return Path(settings[_IVY]) / f"oriel-{key}.json"
