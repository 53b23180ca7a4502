"""The service definitions of the v0.3 world that ship: their cases, and that manifests are closed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from vetro.cli.workflows.group import workflow

ROOT = Path(__file__).resolve().parents[2] / "library" / "v03"
MANIFESTS = sorted(ROOT.glob("*-manifest.yaml"))
FOLDERS = {
    "ui": "ui_forms", "workflows": "workflows", "heat": "heat_templates",
    "agent": "agent_templates", "scripts": "scripts",
}  # fmt: skip


def test_the_cases_hold() -> None:
    """Each service does with recorded answers what its case expects."""
    result = CliRunner().invoke(workflow, ["test", str(ROOT / "cases")])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("file", MANIFESTS, ids=[file.name for file in MANIFESTS])
def test_a_manifest_lists_what_its_service_needs(file: Path) -> None:
    """Every listed file is there, and every template, script and form that is reached is listed."""
    manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert manifest["full_service_name"] == file.name.removesuffix("-manifest.yaml")
    for kind, folder in FOLDERS.items():
        for name in manifest[kind]:
            assert (ROOT / folder / name).is_file(), name
    assert {"Common.xml", "Networking.xml"} <= set(manifest["workflows"])
    for name in manifest["workflows"]:
        text = (ROOT / "workflows" / name).read_text(encoding="utf-8")
        for heat in re.findall(r'<update-cf-stack template="([^"]+)"', text):
            assert f"{heat}.template" in manifest["heat"], heat
        for heat in re.findall(r"<item>([\w-]+ecurity)</item>", text):
            assert f"{heat}.template" in manifest["heat"], heat
        for agent in re.findall(r'<send-command template="([^"]+)"', text):
            assert f"{agent}.template" in manifest["agent"], agent
    for name in manifest["agent"]:
        text = (ROOT / "agent_templates" / name).read_text(encoding="utf-8")
        plan = yaml.safe_load(text)
        if isinstance(plan["Scripts"], list):
            folder = name.rpartition("/")[0]
            for script in plan["Scripts"]:
                path = script[1:] if script[0] == "/" else f"{folder}/{script}".lstrip("/")
                assert path in manifest["scripts"], script
            known = "".join(
                (ROOT / "scripts" / script).read_text(encoding="utf-8")
                for script in manifest["scripts"]
            )
            for command in json.loads(text)["Commands"]:
                assert f"function {command['Name']} {{" in known, command["Name"]
        else:
            for script in plan["Scripts"].values():
                assert {script["EntryPoint"], *script["Files"]} <= set(manifest["scripts"])


def test_all_ten_services_ship() -> None:
    """The nine types of the guide and the demo have manifests."""
    assert {file.name.removesuffix("-manifest.yaml") for file in MANIFESTS} == {
        "activeDirectory", "webServer", "aspNetApp", "webServerFarm", "aspNetAppFarm",
        "msSqlServer", "msSqlClusterServer", "linuxApacheService", "linuxTelnetService",
        "demoService",
    }  # fmt: skip
