"""kafka-streams-differences.md has the windows of the engines and of the examples."""

from tools import surprises


def test_the_page_is_what_the_module_writes() -> None:
    """The committed page equals the output of the module."""
    committed = surprises.PAGE.read_text(encoding="utf-8")
    assert committed == surprises.page(), "run: python -m tools.surprises"


def test_the_page_has_the_windows_of_the_examples() -> None:
    """Each window of Kafka Streams is on the page, at least with its bounds."""
    page = surprises.PAGE.read_text(encoding="utf-8")
    windows = [window for example in surprises.EXAMPLES.values() for window in example.kafka]
    assert [window for window in windows if window.split()[0] not in page] == []
    results = [window for result in surprises.RESULTS.values() for window in result]
    assert [window for window in results if window not in page] == []
