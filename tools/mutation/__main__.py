"""Measure the tests of modules by mutants, and write docs/contributing/mutation.md.

    python -m tools.mutation [MODULE ...] [--sample N] [--seed S] [--processes P]

The exit code is 1 if the score of a module is below the minimum.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime

from tools.mutation.mutants import Mutant, digest, mutants_of
from tools.mutation.page import ROOT, Score, Survivor, keep
from tools.mutation.runs import Result, Results, run
from tools.mutation.targets import EQUIVALENT, FLOOR, TARGETS


def main(arguments: list[str] | None = None) -> int:
    """Measure the modules that the arguments name, all by default."""
    parser = argparse.ArgumentParser(prog="oriel test mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="Default: all modules.")
    parser.add_argument("--sample", type=int, default=40, help="mutants per module. Default: 40")
    parser.add_argument("--seed", type=int, default=1, help="chooses the sample. Default: 1")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time. Default: 2")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.modules) - set(TARGETS))
    if unknown:
        parser.error(f"{unknown[0]!r} is not a module of tools/mutation/targets.py: {[*TARGETS]}")
    # Mutants are never urgent.
    os.nice(10)
    # Ended like this, the program ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    below = [
        module
        for module in options.modules or TARGETS
        if _measured(module, options.sample, options.seed, options.processes).percent < FLOOR
    ]
    for module in below:
        print(f"mutants: {module}: the score is below {FLOOR} %. Write tests that kill the "
              "survivors of docs/contributing/mutation.md.", file=sys.stderr)  # fmt: skip
    return 1 if below else 0


def _measured(module: str, size: int, seed: int, processes: int) -> Score:
    every = mutants_of(ROOT, module)
    shuffled = random.Random(f"{seed} {module}").sample(every, len(every))  # noqa: S311 - a sample
    # If the bytecode of a mutant is unchanged, the next mutant replaces it.
    sample: list[Mutant] = []
    codes: dict[str, str] = {}
    for mutant in shuffled:
        if len(sample) == size:
            break
        code = codes.setdefault(mutant.file, (ROOT / mutant.file).read_text(encoding="utf-8"))
        if mutant.mutated(code) is not None:
            sample.append(mutant)
    tests = TARGETS[module]
    results = Results(ROOT / ".oriel/mutants" / f"{module.replace('/', '.')}.jsonl")
    tests_digest = digest(ROOT, tests)
    known = {
        mutant: results.get(mutant, digest(ROOT, (mutant.file,)), tests_digest) for mutant in sample
    }
    missing = [mutant for mutant in sample if known[mutant] is None]
    print(f"mutants: {module}: {len(sample)} of {len(every)}, {len(missing)} to test", flush=True)
    for result in run(ROOT, missing, tests, processes) if missing else ():
        results.add(result)
        known[result.mutant] = result
        print(f"  {result.outcome} {result.mutant.file}:{result.mutant.line}"
              f" {result.mutant.operator.removeprefix('core/')}", flush=True)  # fmt: skip
    survivors = [
        _survivor(mutant, codes[mutant.file])
        for mutant, result in known.items()
        if isinstance(result, Result) and result.outcome == "survived"
    ]
    score = Score(
        date=datetime.now(UTC).date().isoformat(),
        commit=_git("rev-parse", "--short=8", "HEAD"),
        seed=seed, mutants=len(every), sampled=len(sample),
        survivors=tuple(sorted(survivors, key=lambda survivor: survivor.place)),
    )  # fmt: skip
    keep(module, score)
    print(f"mutants: {module}: killed {score.killed} of {len(sample)}, equivalent "
          f"{score.equivalent}, score {score.percent:.0f} %", flush=True)  # fmt: skip
    return score


def _survivor(mutant: Mutant, code: str) -> Survivor:
    before, after = mutant.changed_lines(code)
    place = f"{mutant.file}:{mutant.line}"
    return Survivor(place, before, after, EQUIVALENT.get((before, after), ""))


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=-1, text=True, check=True).stdout.strip()  # noqa: S603 - our own


if __name__ == "__main__":
    sys.exit(main())
