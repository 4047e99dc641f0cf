"""When a window's rows are written (Kafka Streams' words)."""

from dataclasses import dataclass
from typing import Literal

from oriel.pipeline.windows.arrays import Flags


@dataclass(frozen=True)
class EmitStrategy:
    """When a window's rows are written (Kafka Streams' words)."""

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
        """Whether only final rows are written."""
        return self.name == "window-close"

    def emits(self, changed: Flags, final: Flags) -> Flags:
        """Which windows a batch writes: newly ``final`` ones, and on update ``changed`` ones."""
        emitted: Flags = final if self.is_on_close else changed | final
        return emitted
