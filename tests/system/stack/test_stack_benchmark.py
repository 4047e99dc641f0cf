"""The benchmark of the stack measures each container. The tests do not check its times."""

import pytest

from benchmarks.stack.__main__ import LIMIT_PERCENT, exceeded, measured, percents, report
from benchmarks.stack.usage import ContainerUsage, Usage
from tests.system.stack.compose import RUNNING, Stack

#: Longer than the longest interval between two health checks.
_SECONDS = 24.0


@pytest.mark.e2e
def test_each_container_is_measured(stack: Stack) -> None:
    """Services and checks use processor time, records arrive, and logs and volumes have sizes."""
    samples = measured(stack, _SECONDS)
    figures, _ = report(stack, samples)
    assert figures["records_per_second"] > 0
    assert figures["limits"]["broker"]["log.retention.bytes"] == "1073741824"
    first, last = samples[0], samples[-1]
    assert last.seconds > first.seconds
    assert last.engine_s > first.engine_s
    for service in RUNNING:
        before, after = first.containers[service], last.containers[service]
        assert after.service_s > before.service_s, service
        assert after.checks_s > before.checks_s, service
        assert after.memory_bytes > 0, service
        assert after.log_bytes >= before.log_bytes, service
        assert figures["limits"]["logs"][service].keys() == {"max-size", "max-file"}
        # Its processes are in its control group. The kernel rounds the time of each process.
        inside_s = after.container_s - before.container_s
        assert after.service_s - before.service_s <= inside_s + 0.5, service
    assert {"flights-0", "flights-1", "flights-2"} <= last.volumes["broker"].keys()
    assert last.volumes["data"]["tables"] > 0


def test_percents_are_of_the_time_between_two_samples() -> None:
    """The broker counts without its checks, and the checks of all services are added."""
    first = Usage(100.0, 0, 1.0, dict.fromkeys(RUNNING, ContainerUsage(1.0, 1.0, 2.0, 1, 1)))
    later = {**first.containers, "broker": ContainerUsage(4.0, 2.0, 6.0, 1, 1)}
    last = Usage(200.0, 0, 3.0, {**later, "api": ContainerUsage(1.0, 3.0, 3.0, 1, 1)})
    found = percents(first, last)
    assert (found["broker"], found["broker checks"], found["broker container"]) == (3.0, 1.0, 4.0)
    assert (found["api"], found["api checks"], found["producer checks"]) == (0.0, 2.0, 0.0)
    assert (found["engine"], found["broker and all checks"]) == (2.0, 6.0)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (LIMIT_PERCENT, []),
        (10.06, ["broker and health checks: 10.1 percent of a core, the limit is 10"]),
    ],
)
def test_a_share_above_its_limit_is_named(used: float, expected: list[str]) -> None:
    """The benchmark prints the share that is above its limit, and then exits with 1."""
    assert exceeded({"broker and all checks": used}) == expected
