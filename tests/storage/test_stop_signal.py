"""Tests of stopping a process by a signal."""

import signal
import subprocess
import sys

import pytest

#: Waits in a loop, so that a signal arrives during a wait.
_WAITS = """
from oriel.storage import stop_on_signal

stop = stop_on_signal()
print("waits", flush=True)
while not stop.wait(0):
    pass
"""
_PROCESSES = 12


@pytest.mark.slow
def test_a_signal_in_the_middle_of_a_wait_ends_it() -> None:
    """A signal during a wait ends the process. Setting the event in the handler would deadlock."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _WAITS], stdout=subprocess.PIPE, text=True)
        for _ in range(_PROCESSES)
    ]
    try:
        for number, process in enumerate(processes):
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            process.send_signal((signal.SIGTERM, signal.SIGINT)[number % 2])
        assert [process.wait(60) for process in processes] == [0] * _PROCESSES
    finally:
        for process in processes:
            process.kill()
            process.communicate()
