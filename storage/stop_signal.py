"""An event that SIGTERM and SIGINT set, for processes that run until they are stopped."""

import _thread
import signal
import threading


def stop_on_signal() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on. Call this in the main thread.

    Another thread sets the event. A signal handler runs in the main thread, possibly inside of
    ``wait``, which briefly holds the event's lock. There, ``set`` would wait for itself forever.
    """
    stop = threading.Event()

    def handle(*_: object) -> None:
        # `Thread.start` also needs locks, so this does not use it.
        _thread.start_new_thread(stop.set, ())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stop
