"""Write docs/contributing/mutation.md: the score of each module and the surviving mutants."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.mutation.targets import FLOOR, TARGETS

ROOT = Path(__file__).resolve().parents[2]
#: The newest measurement of each module, which the page shows.
SCORES = Path(__file__).with_name("scores.json")
PAGE = ROOT / "docs" / "contributing" / "mutation.md"

_TEXT = """\
# Mutation tests

A mutant is the product with one change, for example `<` instead of `<=`. The tests of a module
run against each mutant. If a test fails, it kills the mutant. If all tests pass, the mutant
survives, and you know a change that no test detects.

The score is the percentage of mutants that the tests kill. An equivalent mutant behaves like the
original code, so no test can kill it, and it does not count. Each module needs {minimum} percent.

If you change the tests of a module, measure its score again. This command writes this page:

<!-- not run: it runs the tests of a module many times -->
```sh
./oriel test mutants storage/key_codec.py --sample 20 --seed 1
```

A sample depends only on the code and the seed. If you interrupt a run, the next call resumes it.
`tools/mutation/targets.py` has the tests of each module, and the reason for each equivalent mutant.

| module | date | commit | seed | mutants | sampled | killed | equivalent | score, % |
|---|---|---|---|---|---|---|---|---|
{rows}
"""


@dataclass(frozen=True)
class Survivor:
    """A mutant that no test kills. ``reason`` is empty if the mutant is not equivalent."""

    place: str
    before: str
    after: str
    reason: str = ""


@dataclass(frozen=True)
class Score:
    """The result of a run for a module."""

    date: str
    commit: str
    seed: int
    mutants: int
    sampled: int
    survivors: tuple[Survivor, ...]

    @property
    def equivalent(self) -> int:
        """The number of equivalent mutants in the sample."""
        return sum(bool(survivor.reason) for survivor in self.survivors)

    @property
    def killed(self) -> int:
        """The number of mutants in the sample that tests kill."""
        return self.sampled - len(self.survivors)

    @property
    def percent(self) -> float:
        """The percentage of mutants that tests kill, without the equivalent ones."""
        return 100 * self.killed / max(1, self.sampled - self.equivalent)


def scores() -> dict[str, Score]:
    """Return the newest score of each module that was measured."""
    return {
        module: Score(**{**score, "survivors": tuple(Survivor(**s) for s in score["survivors"])})
        for module, score in json.loads(SCORES.read_text(encoding="utf-8")).items()
    }


def keep(module: str, score: Score) -> None:
    """Write the score of a module, and the page."""
    every = {**scores(), module: score}
    ordered = {name: asdict(every[name]) for name in TARGETS if name in every}
    SCORES.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(scores()), encoding="utf-8")


def page(measured: dict[str, Score]) -> str:
    """Return the page for these scores."""
    rows = []
    for module in TARGETS:
        score = measured.get(module)
        fields = (
            ("not measured", *[""] * 7)
            if score is None
            else (
                score.date, score.commit, score.seed, score.mutants, score.sampled, score.killed,
                score.equivalent, f"{score.percent:.0f}",
            )
        )  # fmt: skip
        rows.append(f"| `{module}` | {' | '.join(map(str, fields))} |")
    parts = [_TEXT.format(minimum=FLOOR, rows="\n".join(rows))]
    for title, is_equivalent in (("Surviving mutants", False), ("Equivalent mutants", True)):
        entries = [
            entry
            for module in TARGETS
            if module in measured
            for survivor in measured[module].survivors
            if bool(survivor.reason) is is_equivalent
            for entry in _entry(survivor)
        ]
        parts.append("\n".join([f"## {title}", "", *(entries or ["None.", ""])]))
    return "\n".join(parts)


def _entry(survivor: Survivor) -> list[str]:
    reason = f": {survivor.reason}" if survivor.reason else ""
    changes = (("-", survivor.before), ("+", survivor.after))
    lines = [f"{mark} {line}" for mark, text in changes for line in text.splitlines()]
    return [f"`{survivor.place}`{reason}", "", "```text", *lines, "```", ""]
