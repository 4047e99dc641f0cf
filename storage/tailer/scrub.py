"""Verify indexes repeatedly while they are used, one at a time, in a separate process.

A closed file is compared with its digest. For a file in use, LMDB's structure and counters and the
checksum of each record are verified in one read transaction. Once per day, the rows of an index are
also compared with the rows of its table. After each verification or comparison, a pause of 19 times
its duration follows. So they use at most 5 percent of one core, at the lowest priority. A damaged
index is withdrawn from readers, and the tailer of its store rebuilds it.
"""

import logging
import random
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index import raise_findings, start_comparison, start_verification, withdraw
from oriel.storage.tailer.pool import PooledStore

logger = logging.getLogger(__name__)

#: Seconds between two verifications of an index.
EVERY_SECONDS = 300.0
#: The same for comparisons, and until a failed comparison is repeated.
COMPARE_SECONDS, _RETRY_SECONDS = 86_400.0, 3_600.0
#: The duration of the pause after a check, as a multiple of the check's duration.
_PAUSE_FACTOR = 19.0


@dataclass(frozen=True)
class _Check:
    watched: PooledStore
    generation: Path
    process: "subprocess.Popen[str]"
    began_at: float
    is_comparison: bool = False


class Scrub:
    """The verifications and comparisons of the indexes of one tailer."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Verify nothing yet.

        Args:
            clock: Returns monotonic seconds.
            wall_clock: Returns seconds since 1970.
        """
        self._clock, self._wall_clock = clock, wall_clock
        self._look: _Check | None = None
        self._next_at = 0.0
        #: When the last verification of a store began, or the store was first seen.
        self._looked_at: dict[PooledStore, float] = {}
        #: When the last comparison of an index began, in wall-clock time, because restarts keep it.
        self._compared_at: dict[PooledStore, float] = {}
        self._is_comparison_turn = True

    def step(self, stores: Mapping[str, PooledStore]) -> None:
        """Start or finish a check, if it is time."""
        now = self._clock()
        self._looked_at = {one: self._looked_at.get(one, now) for one in stores.values()}
        if self._look is None:
            if now >= self._next_at:
                # Verifications and comparisons alternate, so that neither blocks the other.
                self._is_comparison_turn = not (
                    self._is_comparison_turn and self._begin_comparison(now)
                )
                if self._look is None:
                    self._begin(now)
        elif self._look.process.poll() is not None:
            look, self._look = self._look, None
            self._next_at = now + _PAUSE_FACTOR * (now - look.began_at)
            self._end(look)

    def close(self) -> None:
        """Stop a check in progress."""
        if self._look is not None:
            self._look.process.kill()
            self._look.process.communicate()
        self._look = None

    def _begin(self, now: float) -> None:
        def urgency(one: PooledStore) -> tuple[bool, float]:
            return one.tailer.is_verified, self._looked_at[one]

        due = [
            one
            for one, at in self._looked_at.items()
            if not one.tailer.is_verified or now - at >= EVERY_SECONDS
        ]
        for watched in sorted(due, key=urgency):
            self._looked_at[watched] = now
            generation = watched.tailer.directory.current()
            if generation is not None:
                self._look = _Check(watched, generation, start_verification(generation), now)
                return

    def _begin_comparison(self, now: float) -> bool:
        """Start to compare the index that has waited longest. Return False if nothing is due."""
        wall = self._wall_clock()
        self._compared_at = {one: self._last_comparison(one, wall) for one in self._looked_at}
        for watched, at in sorted(self._compared_at.items(), key=lambda one: one[1]):
            # A time in the future is from before the wall clock was set back.
            if 0 <= wall - at < COMPARE_SECONDS or watched.tailer.status.state != "following":
                continue
            tailer = watched.tailer
            generation = tailer.directory.current()
            if generation is not None:
                # This is saved first, so that a comparison that kills this process is not repeated
                # at once.
                self._compared_at[watched] = wall
                tailer.directory.save_compared_at(wall)
                process = start_comparison(generation, tailer.log.table, tailer.shard)
                self._look = _Check(watched, generation, process, now, is_comparison=True)
                return True
        return False

    def _last_comparison(self, watched: PooledStore, wall: float) -> float:
        known = self._compared_at.get(watched)
        directory = watched.tailer.directory
        if known is None and (known := directory.compared_at()) is None:
            # The first time is random within the day, and is saved, so that restarts neither repeat
            # nor postpone it. The name of a generation is random.
            chooser = random.Random(str(directory.current()))  # noqa: S311 - no secret
            known = wall - chooser.uniform(0, COMPARE_SECONDS)
            directory.save_compared_at(known)
        return known

    def _end(self, look: _Check) -> None:
        tailer = look.watched.tailer
        output, errors = look.process.communicate()
        if tailer.directory.current() != look.generation:
            return
        try:
            raise_findings(
                look.generation,
                look.process.returncode,
                output,
                errors,
                is_comparison=look.is_comparison,
            )
            tailer.is_verified |= not look.is_comparison
        except IndexDamaged as error:
            message = "index damaged: store=%s. %s. The service rebuilds it from its table"
            logger.error(message, tailer.directory.path.name, error)  # noqa: TRY400 - a finding
            withdraw(tailer.directory, look.generation, str(error))
        except StoreNotReady as error:
            logger.warning("index not verified: store=%s. %s", tailer.directory.path.name, error)
            if look.is_comparison:
                retry_at = self._wall_clock() + _RETRY_SECONDS
                self._compared_at[look.watched] = retry_at - COMPARE_SECONDS
