"""Kills ``oriel run`` (driver, JVM and workers) around a publication.

``python -m tests.system.kafka.killed_sink STEP BATCH RUN-ARGUMENTS...`` runs in its own process
group.
"""

import sys
from collections.abc import Callable
from typing import Any

from oriel.pipeline import run_command as command_line
from oriel.pipeline.commit import SinkTopic, sink_topic
from tests.system.kills.killed_run import kill_before, kill_everything


def _kill_published(batch: int) -> None:
    """Kill when the topic has all of ``batch``, before the note about it is written."""
    note = sink_topic.mark_published

    def killing(directory: Any, prepared: Any, *, sync: bool) -> None:
        if prepared.record.batch == batch:
            kill_everything()
        note(directory, prepared, sync=sync)

    sink_topic.mark_published = killing


STEPS: dict[str, Callable[[int], None]] = {
    "decided": lambda batch: kill_before(SinkTopic, "commit", batch),
    "published": _kill_published,
}

if __name__ == "__main__":
    STEPS[sys.argv[1]](int(sys.argv[2]))
    sys.exit(command_line.main(sys.argv[3:]))
