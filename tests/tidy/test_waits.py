"""Tests wait for named conditions: ``tests/storage/waiting.py`` has the only pause."""

import ast
from collections.abc import Iterator

from tests.storage.waiting import WAIT_SECONDS
from tests.tidy.project import Module, modules_of, offenders

#: Pauses and short timeouts that are part of a scenario -> why they are not waits.
PAUSES = {
    (
        "tests/system/kills/killed_in_maintenance.py",
        "time.sleep",
    ): "the kill comes at a random time",
    ("tests/pipeline/commit/killed_writer.py", "time.sleep"): "the kill comes at a random time",
    ("tests/storage/test_tailer.py", "time.sleep"): "the kill comes at a random time",
    ("tests/storage/waiting.py", "time.sleep"): "the pause between two looks",
    ("tests/storage/waiting.py", "asyncio.sleep"): "the pause between two looks",
    ("tests/storage/waiting.py", "time.monotonic"): "the deadline of every wait",
    ("tests/system/operations/test_routing.py", "done.wait"): "clients leave time to services",
    ("tests/e2e/kafka_broker.py", "admin.list_topics"): "one look of many",
    ("tests/system/kills/kill_campaign.py", "ends.wait"): "a reader pauses between two rounds",
    ("tests/storage/test_object_outages.py", "_never.wait"): "the object store sends slowly",
    ("tests/storage/test_log_changes.py", "changes.wait"): "the wait is what the test checks",
    ("tests/storage/test_log_changes.py", "without.wait"): "the wait is what the test checks",
    ("tests/storage/test_tailer_pool.py", "stop.wait"): "the pool is supervised in rounds",
}
_SLEEPS = {"time.sleep", "asyncio.sleep"}
#: Functions whose first argument is a timeout, and functions with a ``timeout`` argument.
_TIMEOUTS = {"wait", "join", "result", "poll", "consume", "settimeout"}


def test_tests_wait_for_conditions() -> None:
    """No test sleeps, polls by itself or times out in less than a minute."""
    found = [
        f"{module.name}:{line} {what}"
        for module in modules_of("tests")
        for what, line in _pauses(module)
        if (module.name, what) not in PAUSES
    ]
    assert found == [], (
        "wait_until, wait_for and wait_in_loop of tests/storage/waiting.py wait for a condition "
        "and show its last state. Let a part of a scenario wait for an event that the test sets. "
        f"Give a timeout of WAIT_SECONDS at least. Or add a reason to PAUSES:{offenders(found)}"
    )


def test_reasons_for_pauses_are_still_needed() -> None:
    """An entry of the list is removed with its pause."""
    there = {(module.name, what) for module in modules_of("tests") for what, _ in _pauses(module)}
    unused = [str(place) for place in PAUSES if place not in there]
    assert unused == [], f"remove from PAUSES:{offenders(unused)}"


def _pauses(module: Module) -> Iterator[tuple[str, int]]:
    """Yield each call that waits for a time by itself, and its line."""
    taken = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in module.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    in_loops = {
        id(part) for loop in module.nodes if isinstance(loop, ast.While) for part in ast.walk(loop)
    }
    for node in module.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        name = taken.get(name, name)
        is_clock = name == "time.monotonic" and id(node) in in_loops
        if name in _SLEEPS or is_clock or _is_short(node, name.rpartition(".")[2]):
            yield name, node.lineno


def _is_short(call: ast.Call, name: str) -> bool:
    """Return whether a call times out in less than a minute. A limit of 0 does not wait."""
    times = [word.value for word in call.keywords if word.arg == "timeout"]
    times += call.args[:1] if name in _TIMEOUTS else []
    return any(
        isinstance(time, ast.Constant)
        and isinstance(time.value, int | float)
        and 0 < time.value < WAIT_SECONDS
        for time in times
    )
