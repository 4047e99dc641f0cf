"""Failures of containers: the result does not change."""

import pytest

from tests.system.stack.compose import RUNNING, Stack
from tests.system.stack.flights import offsets, require_exact_windows, wait_for_more_flights
from tests.system.stack.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize("service", RUNNING)
def test_kill_9_in_a_container_loses_nothing(stack: Stack, service: str) -> None:
    """Docker starts the container again, flights continue, and every window is correct."""
    before = int(stack.inspect(service)["RestartCount"])
    stack.kill(service)
    wait_for(
        lambda: (stack.inspect(service)["RestartCount"], stack.inspect(service)["State"]),
        lambda seen: seen[0] > before and seen[1]["Running"],
        f"a restart of {service}",
    )
    wait_for_more_flights(stack)
    require_exact_windows(stack)


def test_a_restart_of_the_broker_loses_nothing(stack: Stack) -> None:
    """Producer and pipeline continue with the broker, and every window is correct."""
    stack.compose("restart", "broker")
    wait_for_more_flights(stack)
    require_exact_windows(stack)


def test_down_and_up_continue(stack: Stack) -> None:
    """New containers continue with the volumes of the old ones, and every window is correct."""
    before = offsets(stack)
    stack.compose("down")
    stack.compose("up", "--detach")
    stack.wait_until_healthy(*RUNNING)
    wait_for_more_flights(stack)
    reached = require_exact_windows(stack)
    assert {p for p, offset in before.items() if reached[p] < offset} == set()
