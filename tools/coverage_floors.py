"""Measure which branches of the product the tests run, and compare them with minimums.

    python -m tools.coverage_floors [--append] PYTEST ARGUMENTS
    python -m tools.coverage_floors --report

Each option of pytest works. With ``--append`` the result counts earlier runs as well. The exit code
is 1 if tests fail or a percentage is below its minimum.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / ".oriel/coverage"

#: A path below the root -> the minimum percentage of its lines and branches that tests run.
FLOORS = {
    "": 95,
    "app": 95,
    "client": 95,
    "pipeline": 95,
    "storage": 95,
    "src/oriel": 95,
    "pipeline/windows/definitions": 100,
    "pipeline/windows/aggregates": 100,
    "storage/key_codec.py": 100,
    "storage/key_types.py": 100,
}


def main(arguments: list[str]) -> int:
    """Run the tests, print a table of the percentages, and return the exit code."""
    os.chdir(ROOT)
    DATA.mkdir(parents=True, exist_ok=True)
    failed = 0
    if arguments != ["--report"]:
        if arguments[:1] == ["--append"]:
            arguments = arguments[1:]
        else:
            _coverage("erase")
        failed = _coverage("run", "-m", "pytest", *arguments)
        _coverage("combine", "--append", "--quiet")
    measured = Coverage()
    measured.load()
    counts = {Path(file).relative_to(ROOT).as_posix(): _counts(measured, file)
              for file in measured.get_data().measured_files()}  # fmt: skip
    problems = below(counts)
    print(table(counts))
    for problem in problems:
        print(f"coverage: {problem}", file=sys.stderr)
    return 1 if problems else failed


def below(counts: dict[str, Counter[str]]) -> list[str]:
    """Return a message for each percentage below its minimum. ``counts`` has the files."""
    found = []
    for path, floor in FLOORS.items():
        total = _total(counts, path)
        for what in ("lines", "branches"):
            percent = _percent(total, what)
            if percent < floor:
                files = sorted(
                    (file for file in counts if _is_in(file, path)),
                    key=lambda file: counts[file][f"all {what}"] - counts[file][what],
                    reverse=True,
                )
                found.append(
                    f"{path or 'the product'}: tests run {percent:.1f} % of the {what}, the "
                    f"minimum is {floor} %. Write tests first for {', '.join(files[:3])}."
                )
    return found


def table(counts: dict[str, Counter[str]]) -> str:
    """Return the percentages of each path as a table in Markdown."""
    lines = ["| path | lines, % | branches, % | minimum, % |", "|---|---|---|---|"]
    for path, floor in FLOORS.items():
        total = _total(counts, path)
        percents = " | ".join(f"{_percent(total, what):.1f}" for what in ("lines", "branches"))
        lines.append(f"| {path or 'the product'} | {percents} | {floor} |")
    return "\n".join(lines)


def _coverage(*arguments: str) -> int:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", "coverage", *arguments], check=False
    ).returncode


def _counts(measured: Coverage, file: str) -> Counter[str]:
    """Count the lines and branches of a file: the executed ones, and all."""
    numbers = measured._analyze(file).numbers  # noqa: SLF001 - its reports use it
    return Counter(
        {
            "lines": numbers.n_executed,
            "all lines": numbers.n_statements,
            "branches": numbers.n_executed_branches,
            "all branches": numbers.n_branches,
        }
    )


def _total(counts: dict[str, Counter[str]], path: str) -> Counter[str]:
    return sum((count for file, count in counts.items() if _is_in(file, path)), Counter[str]())


def _is_in(file: str, path: str) -> bool:
    return not path or file == path or file.startswith(f"{path}/")


def _percent(total: Counter[str], what: str) -> float:
    return 100 * total[what] / total[f"all {what}"] if total[f"all {what}"] else 100.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
