"""What docs/reference/kafka-streams-differences.md says of Kafka Streams is so."""

from tools import surprises


def test_the_page_is_what_the_module_writes() -> None:
    """The committed page is the one that the engines give now."""
    committed = surprises.PAGE.read_text(encoding="utf-8")
    assert committed == surprises.page(), "run: python -m tools.surprises"


def test_what_is_asked_is_what_the_page_tells() -> None:
    """Each window that Kafka answers is on the page; of one example only its bounds, in a text."""
    page = surprises.PAGE.read_text(encoding="utf-8")
    told = [window for example in surprises.EXAMPLES.values() for window in example.kafka]
    assert [window for window in told if window.split()[0] not in page] == []
    told = [window for windows in surprises.RESULTS.values() for window in windows]
    assert [window for window in told if window not in page] == []
