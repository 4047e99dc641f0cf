"""The alarms work: each rule finds a fault that is planted for it."""

import ast

import pytest

from tests.tidy import project, test_addresses, test_forbidden_calls, test_sizes_and_words


def _plant(monkeypatch: pytest.MonkeyPatch, folder: str, code: str) -> None:
    module = project.Module(
        project.ROOT / folder / "planted.py", ast.parse(code), len(code.splitlines())
    )
    # The others are looked at by the rules' own tests.
    for place in (test_forbidden_calls, test_sizes_and_words):
        monkeypatch.setattr(place, "modules", lambda: [module])
    monkeypatch.setattr(test_forbidden_calls, "modules_of", lambda _folder: [module])


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    work()\nexcept Exception:\n    pass",
        "try:\n    work()\nexcept (ValueError, BaseException) as error:\n    print(error)",
        "try:\n    work()\nexcept:\n    pass",
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
    """A clock or chance in the engine fails the rule."""
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
    """Randomness that cannot be run again fails the rule."""
    _plant(monkeypatch, "tests", code)
    with pytest.raises(AssertionError, match="planted"):
        test_forbidden_calls.test_randomness_is_seeded()


def test_a_long_function_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of 61 lines fails the rule."""
    _plant(monkeypatch, "storage", "def long():\n" + "    step()\n" * 61)
    with pytest.raises(AssertionError, match="planted"):
        test_sizes_and_words.test_functions_are_short()


def test_an_address_and_a_path_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a registry, or a path of one machine, fails the rules."""
    text = f"from {test_addresses.REGISTRIES[0]} into {'/'}home/ann"
    monkeypatch.setattr(test_addresses, "texts", lambda: [("planted", text)])
    with pytest.raises(AssertionError, match="planted"):
        test_addresses.test_no_registry_is_named()
    with pytest.raises(AssertionError, match="planted"):
        test_addresses.test_no_path_of_one_machine()
