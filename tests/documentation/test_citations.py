"""Citations of rules, guarantees and decisions point at something that exists.

The form of a citation is ``semantics.md#2-1`` or ``guarantees.md#1``, in code, tests and pages. A
decision is cited by its number of four digits.
"""

import re
from functools import cache

import pytest

from tests.tidy.project import ROOT, offenders, texts

_PAGES = {
    "semantics": ROOT / "docs" / "reference" / "semantics.md",
    "guarantees": ROOT / "docs" / "concepts" / "guarantees.md",
}
_CITED = re.compile(r"\b(semantics|guarantees)\.md#([\w-]*)")
_DECISION = re.compile(r"\b[Dd]ecisions?[/ ](\d{4})\b")
#: The names of examples in tests begin with their rule.
_LABEL = re.compile(r'^    "(\d(?:\.\d)?): ', re.MULTILINE)
#: Forms that do not say where the rule is.
_OTHER_FORMS = re.compile(
    r"\bsemantics(?:\.md)?`?,? (?:sections? |rules? )?\d"
    r"|\bpromises? \d"
    r"|\bdesign(?:\.md| promise)"
    r"|\bclosing[ ]note",
    re.IGNORECASE,
)
#: The same in Python, where a rule of a decision names the decision: "docs/decisions/0009, rule 1".
_OTHER_FORMS_IN_CODE = re.compile(
    r"""\bsections? \d|(?<!\d{4}, )\brules? \d|^ *(?:#|\"{3}) ?\d\.\d[,:]""",
    re.IGNORECASE | re.MULTILINE,
)


@cache
def _anchors(page: str) -> frozenset[str]:
    found = re.findall(r'<a id="([\w-]+)"></a>', _PAGES[page].read_text(encoding="utf-8"))
    assert len(found) == len(set(found)), f"{page}.md defines an anchor twice"
    return frozenset(found)


def _in_another_form(name: str, text: str) -> list[str]:
    """Return the citations of a file that are not in the form of this project."""
    found = _OTHER_FORMS.findall(text)
    if name.endswith(".py"):
        found += _OTHER_FORMS_IN_CODE.findall(text)
    return [f"{name}: {cited.strip()}" for cited in found]


def test_each_rule_and_guarantee_that_is_cited_exists() -> None:
    """The anchor of each citation is on its page."""
    cited = [(name, *citation) for name, text in texts() for citation in _CITED.findall(text)]
    assert len(cited) > 100
    unknown = [
        f"{name}: {page}.md#{anchor}"
        for name, page, anchor in cited
        if anchor not in _anchors(page)
    ]
    assert not unknown, f"these pages have no such anchor:{offenders(unknown)}"


def test_no_citation_has_another_form() -> None:
    """A citation without a page and an anchor leads nowhere."""
    found = [cited for name, text in texts() for cited in _in_another_form(name, text)]
    assert not found, f"write semantics.md#2-1 or guarantees.md#1:{offenders(found)}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("docs/decisions/0001-a.md", ("semantics", "2.3")),
        ("docs/decisions/0001-a.md", ("Promise", "1")),
        ("docs/decisions/0001-a.md", ("see the closing", "note")),
        ("pipeline/a.py", ("semantics section", "4, step 3")),
        ("pipeline/a.py", ("semantics rule", "2")),
        ("pipeline/a.py", ("design", "promise", "1")),
        ("pipeline/a.py", ("as rule", "2 says")),
        ("pipeline/a.py", ('    """Section', '1.1: left 100."""')),
        ("tests/a.py", ("    #", "2.3, cause 1")),
    ],
)  # fmt: skip
def test_another_form_is_found(name: str, words: tuple[str, ...]) -> None:
    """Each form that this project once used is an offense."""
    assert _in_another_form(name, " ".join(words)) != []


@pytest.mark.parametrize("text", ["semantics.md#2-1, step 2", "docs/decisions/0009, rule 1"])
def test_the_form_of_this_project_is_no_other_form(text: str) -> None:
    """Citations of a page and of a decision are accepted."""
    assert _in_another_form("pipeline/a.py", text) == []


def test_each_label_of_an_example_is_a_rule() -> None:
    """An example that begins with a number names a rule of the page."""
    labels = [
        (name, label.replace(".", "-"))
        for name, text in texts()
        if name.startswith("tests/") and name.endswith("_examples.py")
        for label in _LABEL.findall(text)
    ]
    assert len(labels) > 30
    unknown = [f"{name}: {label}" for name, label in labels if label not in _anchors("semantics")]
    assert not unknown, f"semantics.md has no such rule:{offenders(unknown)}"


def test_each_decision_that_is_cited_exists() -> None:
    """A record has the number that a text cites."""
    records = {path.name[:4] for path in (ROOT / "docs" / "decisions").glob("0*.md")}
    unknown = [
        f"{name}: {number}"
        for name, text in texts()
        for number in _DECISION.findall(text)
        if number not in records
    ]
    assert not unknown, f"no such decisions:{offenders(unknown)}"
