"""``oriel dead-letters``: list dead letters, and replay their records (decision 0038)."""

from oriel.pipeline.operations.dead_letters.replay import brokers_for

__all__ = ["brokers_for"]
