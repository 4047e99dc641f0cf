"""Mutation tests: the existing mutants, the mutants that tests kill, and the page of scores."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.project import ROOT
from tools.mutation.mutants import Mutant, mutants_of
from tools.mutation.page import PAGE, Score, Survivor, page, scores
from tools.mutation.runs import BaselineFails, Results, run
from tools.mutation.targets import EQUIVALENT, FLOOR, TARGETS

_CODE = '''\
"""A module."""

LIMIT = 3


def fits(number: int | None) -> bool:
    """Whether it fits."""
    return number is None or number < LIMIT
'''
_TEST = '''\
"""Its test."""

from small import fits


def test_the_limit() -> None:
    """Three does not fit."""
    assert fits(2)
    assert not fits(4)
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with one module, and a test that misses one bound."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/small.py").write_text(_CODE)
    (tmp_path / "test_small.py").write_text(_TEST)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\nmarkers = ['e2e', 'browser', 'kafka', 'long']\n"
    )
    return tmp_path


def _changes(project: Path, mutants: list[Mutant]) -> set[str]:
    return {mutant.changed_lines(_CODE)[1] for mutant in mutants if mutant.file == "src/small.py"}


def test_annotations_have_no_mutants(project: Path) -> None:
    """A mutant of an annotation would fail at import, so annotations do not have mutants."""
    mutants = mutants_of(project, "src/small.py")
    assert mutants == mutants_of(project, "src")
    changes = _changes(project, mutants)
    assert {"LIMIT = 2", "LIMIT = 4", "return number is None or number <= LIMIT"} <= changes
    assert [change for change in changes if "def fits" in change] == []


@pytest.mark.slow
def test_a_run_separates_what_tests_notice(project: Path) -> None:
    """Only a mutant with a failing test is killed, and the file keeps its code."""
    by_change = {
        mutant.changed_lines(_CODE)[1]: mutant for mutant in mutants_of(project, "src/small.py")
    }
    sample = {
        "LIMIT = 2": "killed",
        "LIMIT = 4": "survived",
        "return number is None or number > LIMIT": "killed",
        "return number is None or number <= LIMIT": "survived",
    }
    mutants = [by_change[change] for change in sample]
    found = {result.mutant: result for result in run(project, mutants, ("test_small.py",), 2)}
    assert [found[mutant].outcome for mutant in mutants] == [*sample.values()]
    assert (project / "src/small.py").read_text() == _CODE
    # A later run knows the results.
    results = Results(project / "results.jsonl")
    for result in found.values():
        results.add(result)
    again = Results(project / "results.jsonl")
    killed, survived = (found[by_change[change]] for change in ("LIMIT = 2", "LIMIT = 4"))
    assert again.get(killed.mutant, killed.code, "other tests") == killed
    assert again.get(killed.mutant, "other code", killed.tests) is None
    assert again.get(survived.mutant, survived.code, survived.tests) == survived
    assert again.get(survived.mutant, survived.code, "other tests") is None


@pytest.mark.slow
def test_tests_that_fail_without_a_mutant_are_shown(project: Path) -> None:
    """A test that fails without a mutant is an error, because it would kill each mutant."""
    (project / "test_small.py").write_text(_TEST.replace("fits(4)", "fits(2)"))
    (mutant, *_) = mutants_of(project, "src/small.py")
    with pytest.raises(BaselineFails, match="assert not"):
        next(run(project, [mutant], ("test_small.py",), 1))


def test_modules_and_tests_of_the_targets_exist() -> None:
    """A path that was renamed would have no mutants."""
    paths = [path for module, tests in TARGETS.items() for path in (module, *tests)]
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing, f"name these paths as they are now: {missing}"


@pytest.mark.slow
def test_an_unknown_module_is_refused() -> None:
    """The message lists the modules."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tools.mutation", "storage/none.py"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "'storage/none.py' is not a module of" in done.stderr
    assert "storage/key_codec.py" in done.stderr


def test_the_page_has_the_newest_scores() -> None:
    """`./oriel test mutants` writes the scores and the page."""
    assert PAGE.read_text() == page(scores())


def test_every_measured_module_reaches_the_floor() -> None:
    """Tests kill 85 percent of the mutants of each module that was measured."""
    below = {module: score.percent for module, score in scores().items() if score.percent < FLOOR}
    assert not below, (
        f"write tests that kill the survivors of docs/contributing/mutation.md: {below}"
    )


def test_every_equivalent_mutant_has_a_reason() -> None:
    """A reason is a sentence."""
    short = [change for change, reason in EQUIVALENT.items() if len(reason.split()) < 4]
    assert not short, f"say why no test can notice these: {short}"


def test_a_score_leaves_out_equivalent_mutants() -> None:
    """Of 20 mutants with 1 equivalent and 2 that survive, tests kill 17 of 19."""
    survivors = (
        Survivor("a.py:1", "a < b", "a <= b"),
        Survivor("a.py:2", "a > b", "a >= b"),
        Survivor("a.py:3", "x = 1", "x = 2", "nothing reads x"),
    )
    score = Score("2026-01-01", "abc", 1, 100, 20, survivors)
    assert (score.killed, score.equivalent, round(score.percent, 1)) == (17, 1, 89.5)
    text = page({"storage/key_codec.py": score})
    assert "| `storage/key_codec.py` | 2026-01-01 | abc | 1 | 100 | 20 | 17 | 1 | 89 |" in text
    assert "`a.py:1`\n\n```text\n- a < b\n+ a <= b\n```" in text
    assert "`a.py:3`: nothing reads x" in text
