"""Measure what the local stack uses: ``./oriel bench stack [--minutes 60] [--speed 50]``.

Starts the services of docker-compose.yml with a producer of 50 records per second. It measures at
the start and after a sixth, a half and the whole of the time. The figures are processor time and
memory of each container, processor time of health checks, and sizes of volumes and container logs.

Prints tables, and JSON in the last line. The exit code is 1 if the broker and all health checks
together use more than 10 percent of a core, or if a container ended. Between two samples, the
benchmark only waits. It needs root on Linux, because it reads the processes of the containers.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.stack.usage import ContainerEnded, ContainerUsage, Meter, Usage, log_limits
from tests.system.stack.compose import RUNNING, Stack
from tests.system.stack.engine import running_engine
from tests.system.stack.running import running_stack
from tests.tidy.project import ROOT

#: The greatest share of a core of the broker and all health checks, in percent.
LIMIT_PERCENT = 10.0
#: When samples are taken, in parts of the time.
_PARTS = (0.0, 1 / 6, 1 / 2, 1.0)
_MIB = 1 << 20


def measured(stack: Stack, seconds: float) -> list[Usage]:
    """Return the usage of a stack at the start and after each part of the seconds."""
    meter, samples = Meter(stack), list[Usage]()
    began = time.monotonic()
    for part in _PARTS:
        time.sleep(max(0.0, began + part * seconds - time.monotonic()))
        samples.append(meter.read(time.monotonic()))
        # The figures of a long run are not lost if it fails later.
        print(json.dumps(asdict(samples[-1])), file=sys.stderr, flush=True)
    return samples


def percents(first: Usage, last: Usage) -> dict[str, float]:
    """Return the share of a core between two samples, in percent, by its cause."""

    def share(used_s: float) -> float:
        return round(used_s * 100 / (last.seconds - first.seconds), 2)

    found: dict[str, float] = {}
    for name, figure in (("", "service_s"), (" checks", "checks_s"), (" container", "container_s")):
        for service in RUNNING:
            before, after = first.containers[service], last.containers[service]
            found[f"{service}{name}"] = share(getattr(after, figure) - getattr(before, figure))
    found["engine"] = share(last.engine_s - first.engine_s)
    checks = sum(found[f"{service} checks"] for service in RUNNING)
    found["broker and all checks"] = round(found["broker"] + checks, 2)
    return found


def exceeded(found: dict[str, float]) -> list[str]:
    """Return a line for each share that is not within its limit."""
    used = found["broker and all checks"]
    if used <= LIMIT_PERCENT:
        return []
    return [
        f"broker and health checks: {used:.1f} percent of a core, the limit is {LIMIT_PERCENT:.0f}"
    ]


def _print(samples: list[Usage]) -> None:
    first = samples[0]
    minutes = [(sample.seconds - first.seconds) / 60 for sample in samples]

    def line(name: str, values: Sequence[float], digits: int = 1) -> None:
        print(f"{name:32}" + "".join(f"{value:10,.{digits}f}" for value in values))

    line("minutes", minutes)
    line("records", [sample.records for sample in samples], 0)
    print("percent of a core since the last sample")
    shares = [percents(*pair) for pair in pairwise(samples)]
    for name in shares[0]:
        line(f"  {name}", [0.0, *(share[name] for share in shares)], 2)
    for title, figure in (("memory, MiB", "memory_bytes"), ("log, MiB", "log_bytes")):
        print(title)
        for service in RUNNING:
            usages: list[ContainerUsage] = [sample.containers[service] for sample in samples]
            line(f"  {service}", [getattr(usage, figure) / _MIB for usage in usages], 2)
    print("volumes, MiB")
    for volume in first.volumes:
        for name in sorted({name for sample in samples for name in sample.volumes[volume]}):
            sizes = [sample.volumes[volume].get(name, 0) / _MIB for sample in samples]
            line(f"  {volume}/{name}", sizes, 2)


def _broker_limits() -> dict[str, str]:
    """Return the settings that limit the topics of the broker."""
    lines = (ROOT / "stack" / "broker.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("log.retention"))


def report(stack: Stack, samples: list[Usage]) -> tuple[dict[str, Any], list[str]]:
    """Return all figures of a run, and a line for each that is not within its limit."""
    first, last = samples[0], samples[-1]
    found = percents(first, last)
    figures = {
        "benchmark": "stack",
        "cores": os.cpu_count(),
        "records_per_second": round(
            (last.records - first.records) / (last.seconds - first.seconds), 2
        ),
        "percent_of_a_core": found,
        "limits": {"logs": log_limits(stack), "broker": _broker_limits()},
        "samples": [asdict(sample) for sample in samples],
    }
    return figures, exceeded(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the stack, measure it, print tables and one line of JSON."""
    parser = argparse.ArgumentParser(prog="oriel bench stack", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="minutes to measure. Default: 60"
    )
    parser.add_argument("--speed", type=int, default=50, help="records per second. Default: 50")
    options = parser.parse_args(arguments)
    try:
        with (
            running_engine() as engine,
            running_stack(engine, "oriel-bench", SPEED=str(options.speed)) as stack,
        ):
            samples = measured(stack, options.minutes * 60)
            figures, problems = report(stack, samples)
    except pytest.skip.Exception as missing:
        print(missing, file=sys.stderr)
        return 2
    except ContainerEnded as ended:
        print(ended)
        return 1
    _print(samples)
    for problem in problems:
        print(problem)
    print(json.dumps(figures))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
