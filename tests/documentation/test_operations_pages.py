"""The pages of metrics, alerts and log lines equal the code and the alert rules."""

import re
from typing import Any

import pytest
import yaml

from tests.tidy.project import ROOT, texts
from tools import metrics_page

_ALERTS = (ROOT / "docs" / "reference" / "alerts.md").read_text()
_RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "monitoring/prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]


def test_the_page_of_metrics_equals_the_code() -> None:
    """It has the name, type, labels and meaning of each metric."""
    assert metrics_page.PAGE.read_text() == metrics_page.page(), "run: python -m tools.metrics_page"


def test_alerts_use_metrics_of_the_page() -> None:
    """A rule with another metric would never fire."""
    listed = set(re.findall(r"^\| `(oriel_\w+)`", metrics_page.PAGE.read_text(), re.MULTILINE))
    used = {name for rule in _RULES for name in re.findall(r"\boriel_\w+", rule["expr"])}
    assert used <= listed


def test_the_page_of_alerts_has_the_rules_in_their_order() -> None:
    """One section and one row per rule, and no others."""
    names = [rule["alert"] for rule in _RULES]
    assert re.findall(r"^## (Oriel\w+)$", _ALERTS, re.MULTILINE) == names
    rows = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \|", _ALERTS, re.MULTILINE)
    assert rows == [
        (rule["alert"], rule["alert"].lower(), rule["labels"]["severity"]) for rule in _RULES
    ]


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule["alert"])
def test_the_entry_of_an_alert_equals_its_rule(rule: dict[str, Any]) -> None:
    """It has severity, duration and expression, and the rule links to it."""
    section = _ALERTS.split(f"\n## {rule['alert']}\n")[1].split("\n## ")[0]
    assert f"- **Severity:** {rule['labels']['severity']}\n" in section
    assert f"- **Duration:** {rule.get('for', '0s')}\n" in section
    assert f"```text\n{rule['expr']}\n```" in section
    assert re.search(r"^1\. ", section, re.MULTILINE)
    anchor = f"docs/reference/alerts.md#{rule['alert'].lower()}"
    assert rule["annotations"]["runbook_url"] == anchor


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule["alert"])
def test_the_summary_of_an_alert_has_the_number_of_its_condition(rule: dict[str, Any]) -> None:
    """A person who receives it learns how much, or for how long."""
    assert re.search(r"\d", re.sub(r"\{\{.*?\}\}", "", rule["annotations"]["summary"]))


def test_the_page_of_log_lines_has_every_event() -> None:
    """Each event that the product logs has a row, and each row is an event of the product."""
    page = (ROOT / "docs" / "reference" / "logs.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:info|warning|error|critical) \|", page, re.MULTILINE)
    calls = [
        event
        for name, text in texts()
        if name.endswith(".py") and name.startswith(("app/", "pipeline/", "storage/"))
        for event in re.findall(r"""\bsay[(,]\s*"([a-z-]+)"[,)]""", text)
    ]
    assert calls
    assert set(rows) == set(calls)
