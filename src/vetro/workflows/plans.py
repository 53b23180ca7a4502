"""Execution plans from agent templates, formats 1 and 2 (§10.3; guest-agent.md §4, §5)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import cast

from vetro.workflows.errors import TemplateError
from vetro.workflows.files import Files
from vetro.workflows.templates import substitute
from vetro.workflows.values import Json

AGENT = "templates/agent"


def build_plan(
    files: Files,
    template: str,
    mappings: dict[str, Json],
    os_version: str | None,
    plan_id: str,
    new_id: Callable[[], str],
) -> tuple[dict[str, Json], list[str]]:
    """The wire plan, and the ``$key`` of the template that have no mapping.

    Script texts are never substituted. Raises: TemplateError, EvaluationError.
    """
    folder = f"{AGENT}/{os_version}" if os_version else AGENT
    plan = files.template(folder, template, "the agent template")
    version = str(plan.get("FormatVersion") or "1.0.0")
    name = f"{os_version}/{template}" if os_version else template
    if version.startswith("1."):
        return _plan_v1(files, name, plan, mappings)
    if version.startswith("2."):
        return _plan_v2(files, name, plan, mappings, plan_id, new_id)
    raise TemplateError(f"{template}: FormatVersion {version!r} is neither 1 nor 2")


def _plan_v1(
    files: Files, template: str, plan: dict[str, Json], mappings: dict[str, Json]
) -> tuple[dict[str, Json], list[str]]:
    scripts = _list(plan, "Scripts", template)
    embedded = [
        base64.encodebytes(_script_v1(files, template, _name(one, template))).decode()
        for one in scripts
    ]
    commands: list[Json] = []
    for command in _list(plan, "Commands", template):
        if not isinstance(command, dict):
            raise TemplateError(f"{template}: a command is a map of Name and Arguments")
        commands.append({**cast("dict[str, Json]", command)})
        if commands[-1].get("Arguments") is None:
            commands[-1]["Arguments"] = {}
    plan = {**plan, "Scripts": [], "Commands": commands}
    wire, missing = substitute(plan, mappings)
    wire["Scripts"] = embedded
    wire["RebootOnCompletion"] = _reboot(wire.get("RebootOnCompletion"), template)
    return wire, missing


def _reboot(value: Json, template: str) -> int:
    value = 0 if value is None else value
    if isinstance(value, str) and value.strip() in {"0", "1", "2"}:
        value = int(value)
    if isinstance(value, bool) or value not in (0, 1, 2):
        raise TemplateError(f"{template}: RebootOnCompletion is 0, 1 or 2, not {value!r}")
    return int(value)


def _script_v1(files: Files, template: str, name: str) -> bytes:
    """A name that starts with ``/`` is relative to the scripts root, others to the template's folder."""
    folder = template.rpartition("/")[0]
    path = name[1:] if name.startswith("/") else f"{folder}/{name}" if folder else name
    return _script(files, [f"{AGENT}/scripts"], path, template, name)


def _script(files: Files, folders: list[str], path: str, template: str, name: str) -> bytes:
    for folder in folders:
        found = files.find(folder, path)
        if found is not None:
            return found
    raise TemplateError(f"{template}: the script {name!r} is missing: {folders[0]}/{path}")


def _name(value: Json, template: str) -> str:
    if not isinstance(value, str) or not value:
        raise TemplateError(f"{template}: a script is named by a text, not {value!r}")
    return value


def _list(plan: dict[str, Json], key: str, template: str) -> list[Json]:
    value = plan.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise TemplateError(f"{template}: {key} is not a list")
    return cast("list[Json]", value)


def _map(value: Json, what: str, template: str) -> dict[str, Json]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TemplateError(f"{template}: {what} is not a map")
    return cast("dict[str, Json]", value)


def _plan_v2(
    files: Files,
    template: str,
    plan: dict[str, Json],
    mappings: dict[str, Json],
    plan_id: str,
    new_id: Callable[[], str],
) -> tuple[dict[str, Json], list[str]]:
    declared = _map(plan.get("Files"), "Files", template)
    known = {
        str(_map(body, f"file {key}", template).get("Name")): key for key, body in declared.items()
    }
    placed: dict[str, Json] = {}
    above = template.rpartition("/")[0]
    # Next to the template (§10.3), then where plans of format 1 look.
    folders = [f"{AGENT}/{above}/scripts" if above else f"{AGENT}/scripts"]
    if above:
        folders += [f"{AGENT}/scripts/{above}", f"{AGENT}/scripts"]

    def place(item: Json) -> str:
        name = _name(item, template)
        binary = name.startswith("<") and name.endswith(">")
        path = name[1:-1] if binary else name
        if path in known:
            return known[path]
        content = _script(files, folders, path.lstrip("/"), template, path)
        body: dict[str, Json]
        if binary:
            encoded = base64.b64encode(content).decode() + "\n"
            body = {"Name": path, "BodyType": "Base64", "Body": encoded}
        else:
            try:
                content_text = content.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise TemplateError(
                    f"{template}: {path} is not UTF-8 text: write <{path}> to send it as it is"
                ) from error
            normalised = content_text.replace("\r\n", "\n")
            body = {"Name": path, "BodyType": "Text", "Body": normalised}
        key = known[path] = new_id()
        placed[key] = body
        return key

    scripts: dict[str, Json] = {}
    for name, value in _map(plan.get("Scripts"), "Scripts", template).items():
        script = dict(_map(value, f"script {name}", template))
        if not script.get("EntryPoint"):
            raise TemplateError(f"{template}: the script {name!r} has no EntryPoint")
        if script.get("Type", "Application") == "Application":
            script["EntryPoint"] = place(script["EntryPoint"])
        if "Files" in script:
            script["Files"] = [place(item) for item in _list(script, "Files", template)]
        scripts[name] = script
    wire, missing = substitute({**plan, "Scripts": scripts, "Files": declared}, mappings)
    wire["ID"] = plan_id
    wire.setdefault("Action", "Execute")
    wire["Files"] = {**wire["Files"], **placed}
    return wire, missing
