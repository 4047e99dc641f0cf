"""End a process together with its parent, so that a killed parent does not leave orphans."""

import os
import threading
import time

_POLL_SECONDS = 0.25


def end_with_parent(parent_pid: int) -> None:
    """End this process soon after ``parent_pid`` is not its parent any more.

    Only use it in processes that can end at any time. The API only reads, and the index survives.
    """

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(_POLL_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
