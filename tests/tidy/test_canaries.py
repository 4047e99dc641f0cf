"""The rules detect violations: each finds a planted one."""

import ast
import subprocess
import sys

import pytest

from tests.tidy import (
    project,
    test_addresses,
    test_assertions,
    test_forbidden_calls,
    test_waits,
)


def _plant(monkeypatch: pytest.MonkeyPatch, directory: str, code: str) -> None:
    module = project.Module(
        project.ROOT / directory / "planted.py", ast.parse(code), len(code.splitlines())
    )
    # The rules' own tests check the other modules.
    for place in (test_assertions, test_forbidden_calls):
        monkeypatch.setattr(place, "modules", lambda: [module])
    for place in (test_forbidden_calls, test_waits):
        monkeypatch.setattr(place, "modules_of", lambda _directory: [module])


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    work()\nexcept Exception:\n    pass",
        "try:\n    work()\nexcept (ValueError, BaseException) as error:\n    print(error)",
        "try:\n    work()\nexcept:\n    pass",
        "with suppress(Exception):\n    work()",
        "with open('f') as file, contextlib.suppress(OSError, BaseException):\n    work()",
    ],
)
def test_a_broad_handler_is_found(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A handler that swallows everything fails the rule."""
    _plant(monkeypatch, "storage", code)
    with pytest.raises(AssertionError, match="planted"):
        test_forbidden_calls.test_no_broad_handlers()


@pytest.mark.parametrize(
    "code",
    ["import time", "from time import time", "x = datetime.now()", "np.random.default_rng(3)"],
)
def test_a_clock_in_the_engine_is_found(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A wall clock or randomness in the engine fails the rule."""
    _plant(monkeypatch, "pipeline/windows", code)
    with pytest.raises(AssertionError, match="planted"):
        test_forbidden_calls.test_the_window_engine_has_no_clock()


@pytest.mark.parametrize(
    "code",
    [
        "import random\nrandom.random()",
        "import random\nrandom.Random()",
        "np.random.default_rng()",
    ],
)
def test_unseeded_randomness_is_found(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Randomness without a seed fails the rule."""
    _plant(monkeypatch, "tests", code)
    with pytest.raises(AssertionError, match="planted"):
        test_forbidden_calls.test_randomness_is_seeded()


@pytest.mark.parametrize(
    "code",
    [
        "assert all(x > 0 for x in xs)",
        "assert not any(map(is_wrong, xs)), 'a message'",
        "assert any(xs)",
        "assert xs and (len(xs) > 1 or not all(xs))",
        "assert all(xs) is True",
        "assert np.all(numbers > 0)",
        "assert (numbers > 0).all()",
    ],
)
def test_an_assertion_that_hides_the_failing_item_is_found(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """An assertion of all() or any() fails the rule."""
    _plant(monkeypatch, "tests", code)
    with pytest.raises(AssertionError, match="planted"):
        test_assertions.test_assertions_show_the_failing_item()


def test_an_assertion_that_shows_the_failing_item_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons with the results of all() and any(), as rows or in a list, pass the rule."""
    code = "assert store.all() == []\nassert [x for x in xs if not any(x)] == []"
    _plant(monkeypatch, "tests", code)
    test_assertions.test_assertions_show_the_failing_item()


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(1)",
        "from time import sleep as pause\npause(0.1)",
        "await asyncio.sleep(0)",
        "while time.monotonic() < end:\n    look()",
        "while not look():\n    assert time.monotonic() < end",
        "threading.Event().wait(0.5)",
        "subprocess.run(command, timeout=5)",
        "process.wait(timeout=30)",
    ],
)
def test_a_pause_is_found(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A sleep, a polling loop or a short timeout in a test fails the rule."""
    _plant(monkeypatch, "tests", code)
    with pytest.raises(AssertionError, match="planted"):
        test_waits.test_tests_wait_for_conditions()


def test_a_wait_for_a_condition_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait without a timeout or with a long one passes the rule, and so does reading the time."""
    code = "event.wait()\nprocess.wait(60)\nprocess.wait(0)\nstarted = time.monotonic()"
    _plant(monkeypatch, "tests", code)
    test_waits.test_tests_wait_for_conditions()


def test_a_complex_function_is_found() -> None:
    """Ruff rejects a function with more than ten branches."""
    branches = "".join(f"    if n == {number}:\n        step()\n" for number in range(11))
    code = f"def planted(n):\n{branches}"
    ruff = [sys.executable, "-m", "ruff", "check", "--select", "C901", "--stdin-filename", "p.py"]
    checked = subprocess.run(
        ruff, input=code, cwd=project.ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 1
    assert "`planted` is too complex (12 > 10)" in checked.stdout


def test_an_address_and_a_path_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a registry, or a path of one machine, fails the rules."""
    text = f"from {test_addresses.REGISTRIES[0]} into {'/'}home/ann"
    monkeypatch.setattr(test_addresses, "texts", lambda: [("planted", text)])
    with pytest.raises(AssertionError, match="planted"):
        test_addresses.test_no_registry_is_named()
    with pytest.raises(AssertionError, match="planted"):
        test_addresses.test_no_path_of_one_machine()


@pytest.mark.parametrize("comment", ["cover", "branch", "cover: never runs"])
def test_an_exclusion_without_a_reason_is_found(
    monkeypatch: pytest.MonkeyPatch, comment: str
) -> None:
    """Code that coverage excludes without a reason fails the rule."""
    # The comment is in two parts, so that this file does not contain it.
    code = f"work()  # pragma: no {comment}\n"
    monkeypatch.setattr(test_forbidden_calls, "texts", lambda: [("storage/planted.py", code)])
    with pytest.raises(AssertionError, match="planted"):
        test_forbidden_calls.test_what_coverage_leaves_out_has_a_reason()
