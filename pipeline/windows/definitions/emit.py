"""The emission policy: which of a batch's windows are written."""

from dataclasses import dataclass
from typing import Literal

from oriel.pipeline.windows.arrays import Flags


@dataclass(frozen=True)
class EmitStrategy:
    """When a window's rows are written (Kafka Streams' words; semantics sections 2.5 and 2.6)."""

    name: Literal["window-update", "window-close"]

    @classmethod
    def on_window_update(cls) -> "EmitStrategy":
        """After every batch that changed the window; ``final`` says when it is the last time."""
        return cls("window-update")

    @classmethod
    def on_window_close(cls) -> "EmitStrategy":
        """Once, when the window is final: no record can change it any more."""
        return cls("window-close")

    @property
    def is_on_close(self) -> bool:
        """Whether a window's only row is its final one."""
        return self.name == "window-close"

    def emits(self, changed: Flags, final: Flags) -> Flags:
        """Which windows a batch writes.

        ``changed`` are those that a record of the batch changed, ``final`` those that it made
        final. On update both are written: a window that becomes final without a new record
        is written once more, with the same values and ``final`` set.
        """
        emitted: Flags = final if self.is_on_close else changed | final
        return emitted
