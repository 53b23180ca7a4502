"""Alert rules and the Grafana dashboard use metrics that there are, and fire when they should."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

MONITORING = Path(__file__).resolve().parents[2] / "monitoring"
OTHERS = {"up", "process_resident_memory_bytes"}
"""Metrics of Prometheus and of its client library."""


def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    read = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in read["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    """What the panels of the dashboard ask."""
    read = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in read["panels"] for target in panel.get("targets", [])]


def test_every_metric_that_is_used_is_there() -> None:
    """A metric that is renamed is renamed in alerts and panels as well."""
    page = (MONITORING.parent / "docs/metrics.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `(\w+)` \|", page, re.M)
    known = {name for one in names for name in (one, f"{one}_bucket")}
    texts = [rule["expr"] for rule in rules()] + queries()
    used = {one for text in texts for one in re.findall(r"\b(?:vetro|process)_\w+|\bup\b", text)}
    assert len(used) > 20
    assert used - OTHERS <= known


def test_every_alert_says_what_to_do_and_is_tested() -> None:
    """Each has a summary and a remedy, stays silent when all is well, and fires in a test."""
    tests = yaml.safe_load((MONITORING / "alerts-test.yml").read_text(encoding="utf-8"))["tests"]
    well, broken = (
        {one["alertname"]: one.get("exp_alerts") for one in test["alert_rule_test"]}
        for test in tests
    )
    for rule in rules():
        assert {"summary", "remedy"} <= rule["annotations"].keys()
        assert well[rule["alert"]] is None
        assert broken[rule["alert"]]


@pytest.mark.programs
def test_the_alerts_fire(tmp_path: Path) -> None:
    """Prometheus's own tool runs the tests of the alerts, and reads every query of the dashboard."""
    recorded = [
        {"record": f"vetro:panel{number}", "expr": expr} for number, expr in enumerate(queries())
    ]
    panels = tmp_path / "panels.yml"
    panels.write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}))
    for arguments in (
        ["test", "rules", str(MONITORING / "alerts-test.yml")],
        ["check", "rules", str(MONITORING / "alerts.yml"), str(panels)],
    ):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
