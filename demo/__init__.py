"""The demo: 336,776 real flights, streamed into windows and served."""

from oriel.demo.command import main
from oriel.demo.serving import serving

__all__ = ["main", "serving"]
