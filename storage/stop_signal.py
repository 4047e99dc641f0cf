"""An event that SIGTERM and SIGINT set, for processes that run until they are asked to end."""

import _thread
import signal
import threading


def stop_on_signal() -> threading.Event:
    """Let SIGTERM and SIGINT set an event from now on; call it in the main thread.

    Another thread sets it. A handler runs in the main thread, maybe in the middle of ``wait``,
    which holds the event's lock for moments: ``set`` would wait there for itself, for ever.
    """
    stop = threading.Event()

    def handle(*_: object) -> None:
        # No Thread: its start takes locks, too.
        _thread.start_new_thread(stop.set, ())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stop
