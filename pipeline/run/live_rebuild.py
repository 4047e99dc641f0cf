"""Compute stores again next to the process that runs the pipeline, and then replace this process.

A live rebuild has a new topology, and the running process has the old one. The replay of each store
follows the batches that the running process prepares, and writes its rows to files in advance. When
it is close to the newest batch, it replaces the running process as a standby does: with the
next epoch, which fences the running process. Then only the records of the last moments are missing,
so readers wait for new rows for a short time, and never see an error (decision 0122).
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from oriel.pipeline.commit import HeldPosition, HeldRebuild, is_locked, remove_lock
from oriel.pipeline.errors import CheckpointError, InvalidTopology
from oriel.pipeline.run.batches import check_readers
from oriel.pipeline.run.opened import OpenPipeline
from oriel.pipeline.run.rebuild import StoreRebuild
from oriel.pipeline.run.recovery import (
    check_definitions,
    check_log_identity,
    log_old_readers,
    replaying,
)
from oriel.pipeline.run.reporting import note_rebuilt
from oriel.pipeline.run.standby import poll_seconds
from oriel.storage import StoreDefinition, say

#: A live rebuild replaces the process if it computes the new batches within this time.
_CLOSE_SECONDS = 2.0


class LiveRebuild:
    """The stores that one process computes again while another process runs the pipeline."""

    def __init__(self, pipeline: OpenPipeline, stores: Sequence[str], *, waits: bool) -> None:
        """Rebuild ``stores`` of ``pipeline``, whose checkpoint this process does not hold.

        With ``waits``, the stores are not replaced before the user accepts (``HeldRebuild``).

        Raises:
            InvalidTopology: a store cannot be rebuilt while the pipeline runs.
            IncompatibleStore: the topology changes another store.
        """
        self._pipeline = pipeline
        self._waits = waits
        #: The last batch of the running process that is computed.
        self._batch = -1
        #: The last batch whose rows are written in advance.
        self._written = -1
        self._names = [name for name in pipeline.plans if name in stores]
        for name in self._names:
            read = ", ".join(each.store_name for each in pipeline.plans[name].store.reads_stores)
            if read or not isinstance(pipeline.definition(name), StoreDefinition):
                reason = f"reads the rows of other stores ({read})" if read else "writes to a topic"
                message = (
                    f"{name!r} cannot be rebuilt with --live, because it {reason}. Stop the "
                    "pipeline and rebuild it without --live"
                )
                raise InvalidTopology(message)
        check_log_identity(pipeline)
        check_definitions(pipeline, stores)

    def run(self, stop: threading.Event) -> bool:
        """Compute the stores, replace the running process, and replace the stores.

        Returns:
            False if ``stop`` was set before the process was replaced. Then nothing has changed.

        Raises:
            CheckpointError: the pipeline has not run, or a store has changed meanwhile.
        """
        pipeline, common = self._pipeline, replaying(self._pipeline)
        with ExitStack() as stack:
            rebuilds: dict[str, StoreRebuild] = {}
            for name in self._names:
                defined = pipeline.definition(name)
                assert isinstance(defined, StoreDefinition)
                rebuild = StoreRebuild(common, pipeline.plans[name], defined)
                rebuilds[name] = stack.enter_context(rebuild)
            if not self._catch_up(rebuilds, stop):
                return False
            if self._waits and not (self._hold(rebuilds, stop) and self._catch_up(rebuilds, stop)):
                return False
            self._replace(rebuilds)
        return True

    def _catch_up(self, rebuilds: Mapping[str, StoreRebuild], stop: threading.Event) -> bool:
        """Follow the running process until this one is close to it. Return False after a stop."""
        while not stop.is_set():
            began = time.monotonic()
            self._compute_new_batches(rebuilds, stop)
            if self._batch > max(0, self._written):
                # The last rows have the revision of the last batch, which is at least this one, so
                # they override these rows.
                for rebuild in rebuilds.values():
                    rebuild.add_rows(self._batch - 1)
                self._written = self._batch
            if time.monotonic() - began < _CLOSE_SECONDS:
                break
        return not stop.is_set()

    def _hold(self, rebuilds: Mapping[str, StoreRebuild], stop: threading.Event) -> bool:
        """Follow the running process until the user accepts. Return False after a stop."""
        layout, batch = self._pipeline.layout, -1
        held = {name: HeldRebuild(layout, name) for name in rebuilds}
        while not all(each.is_accepted for each in held.values()):
            self._compute_new_batches(rebuilds, stop)
            if stop.wait(poll_seconds(self._pipeline.checkpoint.directory)):
                return False
            if self._batch > batch:
                for name, rebuild in rebuilds.items():
                    held[name].write_position(HeldPosition(self._batch, rebuild.version))
                if batch < 0:
                    names = ", ".join(rebuilds)
                    line = f"waiting with {names}: compare with `oriel diff`, then add --accept"
                    say("rebuild", line)
                batch = self._batch
        return True

    def _compute_new_batches(
        self, rebuilds: Mapping[str, StoreRebuild], stop: threading.Event
    ) -> None:
        """Compute the stores up to the newest batch that the running process has prepared."""
        last = self._pipeline.last_prepared()
        if last is None:
            message = "the pipeline has not run. Use `oriel run`, which computes all stores"
            raise CheckpointError(message)
        if last.batch == self._batch:
            return
        for rebuild in rebuilds.values():
            while rebuild.replay.step(last.ends):
                if stop.is_set():
                    return
        self._batch = last.batch

    def _replace(self, rebuilds: Mapping[str, StoreRebuild]) -> None:
        """Fence the running process, compute its last batches, and replace the stores."""
        directory = self._pipeline.checkpoint.directory
        if is_locked(directory):
            # The running process keeps the deleted file. Later starts find the new lock.
            remove_lock(directory)
        pipeline = self._pipeline.held()
        try:
            last = pipeline.last_prepared()
            assert last is not None
            say("rebuild", f"replacing the running process after batch {last.batch}")
            for name, rebuild in rebuilds.items():
                readers = pipeline.topology.readers_of(name)
                check_readers(pipeline.layout, pipeline.checkpoint, name, readers, last.batch)
                prepared = rebuild.replace_store(pipeline.checkpoint, last.batch, last.ends)
                note_rebuilt(directory, name, prepared)
                log_old_readers(pipeline, name, self._names)
        finally:
            pipeline.close()
