"""How a store is computed, as ``TopologyTestDriver.explain`` reports it."""

import re
from typing import Any

from tests.testing.driver_runs import driver_with
from tests.testing.test_driver_functions import KINDS, Value, texts


def test_explain_names_the_reason_why_functions_are_called() -> None:
    """A plain function is compiled. ``explain`` names the line with the call that prevents it."""

    def longer(kept: Any, new: Any) -> Any:
        return new if new["s"] > kept["s"] else kept

    def upper(_: str, value: Value, old: str) -> str:
        return old if value is None else old + value["s"].upper()

    for windows in KINDS.values():
        explained = driver_with(lambda s: s.reduce(longer), windows).explain("s")
        assert explained == "Rows: reduce(functions)\nFunctions: compiled"
        assert texts(windows).explain("s").endswith("Functions: compiled")
        called = texts(windows, upper).explain("s")
        assert re.search(r"called for each record, because line \d+ of upper has .value", called)
    assert "\n" not in driver_with(lambda s: s.count()).explain("s")
