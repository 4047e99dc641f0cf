"""Verifying indexes again and again while they are used, one at a time, in a process of its own.

A file at rest is compared with its digest. In one that is written, LMDB's structure and counters
and the checksum of each record are verified, all within one read transaction. Once a day, the rows
of an index are also compared with the rows of its table. After each look and comparison, a pause of
19 times its length follows, so they use at most 5 percent of one core, and at the lowest priority.
A damaged index is withdrawn from readers, and its store's tailer rebuilds it.
"""

import logging
import random
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index import outcome_of_look, start_comparison, start_look, withdraw
from oriel.storage.tailer.pool import Watched

logger = logging.getLogger(__name__)

#: Seconds from one look at an index to the next.
EVERY_SECONDS = 300.0
#: The same for comparisons, and until one that failed is repeated.
COMPARE_SECONDS, _RETRY_SECONDS = 86_400.0, 3_600.0
#: How many times its own length a look is followed by a pause.
_PAUSES = 19.0


@dataclass(frozen=True)
class _Look:
    watched: Watched
    generation: Path
    process: "subprocess.Popen[str]"
    began_at: float
    is_comparison: bool = False


class Scrub:
    """The looks at the indexes of one tailer."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Look at nothing yet; the clocks return seconds, ``wall_clock`` since 1970."""
        self._clock, self._wall_clock = clock, wall_clock
        self._look: _Look | None = None
        self._next_at = 0.0
        #: When the last look at a store began, or the store was first seen.
        self._looked_at: dict[Watched, float] = {}
        #: When the last comparison of an index began, by the wall clock: it is kept over restarts.
        self._compared_at: dict[Watched, float] = {}
        self._may_compare = True

    def step(self, stores: Mapping[str, Watched]) -> None:
        """Begin or end a look, if it is time."""
        now = self._clock()
        self._looked_at = {one: self._looked_at.get(one, now) for one in stores.values()}
        if self._look is None:
            if now >= self._next_at:
                # In turns, so that neither keeps the other from its time.
                self._may_compare = not (self._may_compare and self._begin_comparison(now))
                if self._look is None:
                    self._begin(now)
        elif self._look.process.poll() is not None:
            look, self._look = self._look, None
            self._next_at = now + _PAUSES * (now - look.began_at)
            self._end(look)

    def close(self) -> None:
        """End a look that is under way."""
        if self._look is not None:
            self._look.process.kill()
            self._look.process.communicate()
        self._look = None

    def _begin(self, now: float) -> None:
        def urgency(one: Watched) -> tuple[bool, float]:
            return one.tailer.is_verified, self._looked_at[one]

        due = [
            one
            for one, at in self._looked_at.items()
            if not one.tailer.is_verified or now - at >= EVERY_SECONDS
        ]
        for watched in sorted(due, key=urgency):
            self._looked_at[watched] = now
            generation = watched.tailer.folder.current()
            if generation is not None:
                self._look = _Look(watched, generation, start_look(generation), now)
                return

    def _begin_comparison(self, now: float) -> bool:
        """Begin with the index that waits for the longest time; False if none is due."""
        wall = self._wall_clock()
        self._compared_at = {one: self._last_comparison(one, wall) for one in self._looked_at}
        for watched, at in sorted(self._compared_at.items(), key=lambda one: one[1]):
            # A time of the future is that of a clock that was set back.
            if 0 <= wall - at < COMPARE_SECONDS or watched.tailer.status.state != "following":
                continue
            tailer = watched.tailer
            generation = tailer.folder.current()
            if generation is not None:
                # Noted first: a comparison that kills this process isn't repeated at once.
                self._compared_at[watched] = wall
                tailer.folder.note_compared(wall)
                process = start_comparison(generation, tailer.log.table, tailer.shard)
                self._look = _Look(watched, generation, process, now, is_comparison=True)
                return True
        return False

    def _last_comparison(self, watched: Watched, wall: float) -> float:
        known = self._compared_at.get(watched)
        folder = watched.tailer.folder
        if known is None and (known := folder.compared_at()) is None:
            # Spread over the day, and noted, so that restarts neither repeat nor postpone it. The
            # name of a generation is random.
            chooser = random.Random(str(folder.current()))  # noqa: S311 - no secret
            known = wall - chooser.uniform(0, COMPARE_SECONDS)
            folder.note_compared(known)
        return known

    def _end(self, look: _Look) -> None:
        tailer = look.watched.tailer
        output, errors = look.process.communicate()
        if tailer.folder.current() != look.generation:
            return
        try:
            outcome_of_look(
                look.generation,
                look.process.returncode,
                output,
                errors,
                is_comparison=look.is_comparison,
            )
            tailer.is_verified |= not look.is_comparison
        except IndexDamaged as error:
            told = "index damaged: store=%s. %s. The service rebuilds it from its table"
            logger.error(told, tailer.folder.path.name, error)  # noqa: TRY400 - a finding
            withdraw(tailer.folder, look.generation, str(error))
        except StoreNotReady as error:
            logger.warning("index not verified: store=%s. %s", tailer.folder.path.name, error)
            if look.is_comparison:
                retry_at = self._wall_clock() + _RETRY_SECONDS
                self._compared_at[look.watched] = retry_at - COMPARE_SECONDS
