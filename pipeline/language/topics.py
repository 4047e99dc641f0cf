"""The rule for topic names, Kafka's own: the event log keeps it too, as names are folders there."""

import re

from oriel.pipeline.errors import InvalidTopology

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_topic(topic: str) -> str:
    """Return ``topic`` if it is a valid topic name.

    Raises:
        InvalidTopology: the name is empty, too long, ``.`` or ``..``, or has other characters.
    """
    good = isinstance(topic, str) and _TOPIC_NAME.fullmatch(topic)
    if not good or topic in {".", ".."}:
        message = (
            f"topic name {topic!r} is not valid: use 1 to 249 letters, digits, '.', '_' or '-', "
            "and neither '.' nor '..' (Kafka's topic rule)"
        )
        raise InvalidTopology(message)
    return topic
