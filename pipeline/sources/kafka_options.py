"""Options of Kafka's client from the command line and from a Java properties file.

All options of the client are used, except for options that would break a guarantee. Values can be
secrets, so messages do not contain them.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from oriel.pipeline.errors import InvalidKafkaOption

_OFFSETS = "offsets are kept in the checkpoint, with the stores"
_BYTES = "messages are read as bytes and decoded as the topology says"
#: Options that users cannot set -> the reason.
_REJECTED = {
    "bootstrap.servers": "--kafka names the servers",
    "auto.offset.reset": "use --start for where a new checkpoint begins, and --on-data-loss for "
    "deleted offsets",
    "enable.auto.commit": _OFFSETS,
    "auto.commit.interval.ms": _OFFSETS,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "interceptor.classes": "an interceptor may change messages, and a batch that is read again "
    "has to be the same",
}

#: Defaults that differ from the defaults of the client.
DEFAULT_OPTIONS: Mapping[str, str] = MappingProxyType({
    # Records of aborted and of open transactions are not read.
    "isolation.level": "read_committed",
    # A read must not create a topic with a misspelled name.
    "allow.auto.create.topics": "false",
    # The defaults of the client (1 MiB and 500 records per poll) suit programs that process one
    # record at a time. With these values, reading is 1.5 times as fast.
    "max.poll.records": "20000",
    "max.partition.fetch.bytes": str(16 * 2**20),
    "fetch.max.bytes": str(64 * 2**20),
    # If a broker is down for hours, the client connects every ten seconds, not every second.
    "reconnect.backoff.max.ms": "10000",
})  # fmt: skip

#: A line and its line end.
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
#: A name, then blanks with at most one = or : among them, then the value.
_ENTRY = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
#: Names of options whose values messages do not contain.
_SECRET = re.compile(r"password|secret|jaas|token|credential|\bkey\b|certificate", re.IGNORECASE)
#: Shorter values are not removed, because any text can contain them.
_MIN_SECRET_CHARS = 4


def client_options(entries: Sequence[str], file: Path | None) -> dict[str, str]:
    """Return the options of the client by name.

    Args:
        entries: Entries ``NAME=VALUE``, which override the file.
        file: A Java properties file.

    Raises:
        InvalidKafkaOption: The file cannot be read, an option has no name or value, or the option
            is not allowed.
    """
    options: dict[str, str] = {}
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            message = f"--kafka-config {file} cannot be read: {reason}"
            raise InvalidKafkaOption(message) from error
        options |= read_properties(text, f"--kafka-config {file}")
    for entry in entries:
        name, separator, value = entry.partition("=")
        if not separator or not name.strip():
            # The text can be a secret.
            message = "--kafka-option must be NAME=VALUE, for example security.protocol=SASL_SSL"
            raise InvalidKafkaOption(message)
        options[name.strip()] = value
    for name in options:
        if name in _REJECTED:
            message = f"Kafka's option {name} cannot be set: {_REJECTED[name]}"
            raise InvalidKafkaOption(message)
        if name.startswith("kafka."):
            message = f"Kafka's option {name} must be named without 'kafka.': {name[6:]}"
            raise InvalidKafkaOption(message)
    return options


def read_properties(text: str, file_name: str) -> dict[str, str]:
    r"""Return the entries of a Java properties file, as ``java.util.Properties`` reads them.

    ``#`` and ``!`` begin comments. After a backslash at its end, a line continues in the next line.
    ``=``, ``:`` or a blank ends a name, and ``\uXXXX`` is a character.

    Args:
        text: The content of the file.
        file_name: The name of the file for messages.

    Raises:
        InvalidKafkaOption: ``\u`` is not followed by four hexadecimal digits.
    """
    entries: dict[str, str] = {}
    logical = ""
    continues = False
    for match in _LINE.finditer(text):
        natural, end = match.groups()
        line = natural.lstrip(" \t\f")
        # A line with only a backslash does not begin an entry, so a comment can follow it.
        if not (continues and logical) and line[:1] in {"", "#", "!"}:
            continues = False
            continue
        # An even number of backslashes at the end are escaped backslashes.
        is_cut = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        logical += line[:-1] if is_cut else line
        # The last line does not continue if at most one character follows its backslash.
        continues = is_cut and bool(end) and (match.end() < len(text) or len(end) > 1)
        if continues:
            continue
        entry = _ENTRY.fullmatch(logical)
        assert entry is not None
        name, value = (_unescaped(part, file_name) for part in entry.groups())
        entries[name] = value
        logical = ""
    return entries


def _unescaped(text: str, file_name: str) -> str:
    r"""Return ``text`` without escapes. An unknown escape is the character after its ``\``."""
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", text):
        message = rf"{file_name}: \u must be followed by four hexadecimal digits"
        raise InvalidKafkaOption(message)

    def character(escape: re.Match[str]) -> str:
        code, other = escape.groups()
        return chr(int(code, 16)) if code else _CONTROLS.get(other, other)

    return _ESCAPE.sub(character, text)


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """Return ``text`` with ``***`` for the values of options that can be secrets."""
    for name, value in options.items():
        if _SECRET.search(name):
            for part in (value, *re.findall(r'"([^"]*)"', value)):
                if len(part) >= _MIN_SECRET_CHARS:
                    text = text.replace(part, "***")
    return text
