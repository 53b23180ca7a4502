"""Forms of packages on the command line: the same wizards as the dashboard's (docs/forms.md)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import click

from vetro.cli.client.answers import Environment, JsonObject, PackageRow
from vetro.cli.client.connection import Connection, segment
from vetro.cli.terminal import confirmation
from vetro.cli.terminal.output import emit_json, emit_rows, fail, remark, wants_json
from vetro.cli.terminal.typed import note
from vetro.digits import is_number

HINT = (
    "Give fields with --set FIELD=VALUE or --set PAGE.FIELD=VALUE; 'vetro package form' shows them."
)
MANAGEMENT = "workflowManagement"
COLUMNS = [
    ("FIELD", "path"),
    ("TYPE", "type"),
    ("REQUIRED", "required"),
    ("VALUE", "value"),
    ("LABEL", "label"),
    ("CHOICES", "choices"),
]
TRIES = 5
LISTED = 20
"""Choices that are shown before a question."""


class Wizard:
    """One filling of a form, forgotten at the end unless it made a component."""

    def __init__(
        self,
        connection: Connection,
        package: PackageRow,
        environment: Environment | None,
        session: str | None,
    ) -> None:
        self.connection = connection
        self.headers = {"X-Configuration-Session": session} if session else {}
        body: JsonObject = {"package": package["id"], "quick": True}
        if environment is not None:
            body["environment_id"] = environment["id"]
        answer = connection.request("POST", "/v1/wizards", json=body, headers=self.headers)
        self.view: JsonObject = answer.json()
        self.path = f"/v1/wizards/{segment(self.view['id'])}"
        self.finished = False

    def __enter__(self) -> Wizard:
        return self

    def __exit__(self, *_error: object) -> None:
        if not self.finished:
            self.connection.request("DELETE", self.path)

    @property
    def pages(self) -> list[JsonObject]:
        """The described pages."""
        return self.view["form"]["pages"]

    def fields(self) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Page and field, in order."""
        for page in self.pages:
            for field in page["fields"]:
                yield page, field

    def place(self, settings: Mapping[str, object], name: str | None) -> dict[str, JsonObject]:
        """The settings by page and field. Ends the command for a field that the form has not."""
        placed: dict[str, JsonObject] = {}
        known = {field["path"]: (page["name"], field) for page, field in self.fields()}
        for path, value in settings.items():
            found = [
                (page["name"], field)
                for page, field in self.fields()
                if path in (field["path"], field["name"])
            ]
            if len(found) > 1:
                paths = ", ".join(field["path"] for _, field in found)
                fail(f"Several pages have a field {path}: {paths}", HINT)
            if not found:
                names = [field["name"] for _, field in self.fields()]
                near = difflib.get_close_matches(path, [*names, *known], 1)
                said = f"did you mean {near[0]}?" if near else f"fields: {', '.join(names)}"
                fail(f"{self.view['package']['name']} has no field {path}; {said}", HINT)
            page, field = found[0]
            if field["secret"]:
                note({"password": value})
            put(placed, page, field, value)
        if name is not None:
            for path in (f"{MANAGEMENT}.application_name", "name"):
                of_name = [known[one] for one in known if one == path or one.endswith(f".{path}")]
                if of_name:
                    put(placed, *of_name[0], name)
                    break
        return placed

    def fill(self, placed: dict[str, JsonObject]) -> None:
        """Submit every page; asks on a terminal for what is missing, and ends the command elsewhere."""
        for page in self.pages:
            name = page["name"]
            values = placed.get(name, {})
            for attempt in range(TRIES + 1):
                answer = self._submit(name, values)
                if answer["valid"]:
                    break
                if attempt == TRIES or wants_json() or not confirmation.is_watched():
                    fail(self._said(name, answer, values), HINT)
                self._ask(answer["page"], answer["errors"], values)

    def _submit(self, page: str, values: JsonObject) -> JsonObject:
        return self.connection.request(
            "POST",
            f"{self.path}/pages/{segment(page)}",
            json={"values": values},
            headers=self.headers,
        ).json()

    @staticmethod
    def _said(page: str, answer: JsonObject, values: JsonObject) -> str:
        fields: list[JsonObject] = answer["page"]["fields"]
        without = [one["name"] for one in fields if one["type"] == "image" and one["choices"] == []]
        said: list[str] = []
        for field, texts in answer["errors"].items():
            for text in texts:
                line = text if field == "page" else f"{page}.{field}: {text[:1].lower()}{text[1:]}"
                if field in without:
                    line += f": 'vetro image build {values.get(field, 'debian-12')}'"
                said.append(line)
        return "; ".join(said)

    def _ask(self, page: JsonObject, errors: Mapping[str, list[str]], values: JsonObject) -> None:
        """Ask for the fields that were refused; for all that are shown when the page as a whole was."""
        remark(f"\n{page['title']} of {len(self.pages)}: {page['name']}")
        for text in errors.get("page", []):
            remark(click.style(text, fg="red"))
        for field in page["fields"]:
            wanted = field["name"] in errors or "page" in errors
            if not wanted or not field["visible"] or not field["enabled"]:
                continue
            if field["name"] in values:
                for text in errors.get(field["name"], []):
                    remark(click.style(text, fg="red"))
            value = asked(field, is_refused=field["name"] in errors)
            values[field["name"]] = value
            if field.get("confirmation"):
                values[field["confirmation"]] = value

    def definition(self) -> str:
        """The text of the form, also of one that is made from a class."""
        return str(self.connection.request("GET", f"{self.path}/definition").json()["text"])

    def build(self) -> JsonObject:
        """The object that the values make."""
        return self.connection.request("POST", f"{self.path}/build", headers=self.headers).json()[
            "model"
        ]

    def finish(self) -> JsonObject:
        """Add the component to the session."""
        answer = self.connection.request(
            "POST", f"{self.path}/finish", json={}, headers=self.headers
        )
        self.finished = True
        return answer.json()["component"]


def put(placed: dict[str, JsonObject], page: str, field: JsonObject, value: object) -> None:
    """Note the value of a field, and of a password's second input."""
    values = placed.setdefault(page, {})
    values[field["name"]] = value
    if field.get("confirmation"):
        values[field["confirmation"]] = value


def asked(field: JsonObject, *, is_refused: bool = False) -> Any:
    """The answer to a field on the terminal; what was refused is not proposed again."""
    if field["description"]:
        remark(field["description"])
    label = field["label"]
    start = field["initial" if is_refused else "value"]
    if field["control"] == "checkbox":
        return click.confirm(label, default=bool(start), err=True)
    options: list[JsonObject] | None = field["choices"]
    if field["control"] == "objects":
        return _several(field, options or [], start)
    if options:
        _list(options)
        text: str = click.prompt(
            f"{label} (number or value)", default=_start(options, start), err=True
        )
        return _meant(options, text)
    if field["secret"]:
        return click.prompt(
            label, hide_input=True, confirmation_prompt=bool(field.get("confirmation")), err=True
        )
    default = "" if start is None else start if isinstance(start, str) else json.dumps(start)
    return click.prompt(label, default=default or None if field["required"] else default, err=True)


def _list(options: list[JsonObject]) -> None:
    for number, one in enumerate(options[:LISTED], 1):
        remark(f"  {number}  {one['label']}")
    if len(options) > LISTED:
        remark(f"  and {len(options) - LISTED} more: answer with the value itself")


def _meant(options: list[JsonObject], text: str) -> Any:
    """The value of a choice's number; any other answer is the value itself."""
    if is_number(text) and 0 < int(text) <= len(options):
        return options[int(text) - 1]["value"]
    return text


def _several(field: JsonObject, options: list[JsonObject], start: object) -> list[object]:
    """Components in the order of the answer: numbers or values with commas between them."""
    _list(options)
    chosen = cast("list[object]", start) if isinstance(start, list) else []
    default = ", ".join(_start(options, one) or str(one) for one in chosen)
    text: str = click.prompt(
        f"{field['label']} (numbers or values in their order, such as 2, 1)",
        default=default or (None if field["required"] else ""),
        show_default=bool(default),
        err=True,
    )
    parts = [one.strip() for one in text.split(",")]
    return [_meant(options, one) for one in parts if one]


def _values(field: JsonObject) -> list[str]:
    options: list[JsonObject] = field["choices"] or []
    return [str(one["value"]) for one in options[:LISTED]]


def _start(options: list[JsonObject], value: object) -> str | None:
    for number, one in enumerate(options, 1):
        if one["value"] == value and value is not None:
            return str(number)
    return None


def _shown(value: object) -> object:
    """A value in a table: several components with commas between them, as ``--set`` takes them."""
    if not isinstance(value, list):
        return value
    several = cast("list[object]", value)
    return ", ".join(map(str, several)) if all(isinstance(one, str) for one in several) else several


def show_form(view: JsonObject) -> None:
    """A form as a table of its fields, or as JSON."""
    if wants_json():
        emit_json(view["form"])
        return
    rows = [
        {
            **field,
            "choices": ", ".join(_values(field)),
            "required": "yes" if field["required"] else "",
            "type": "objects" if field["control"] == "objects" else field["type"],
            "value": None if field["secret"] else _shown(field["value"]),
        }
        for page in view["form"]["pages"]
        for field in page["fields"]
    ]
    emit_rows(rows, COLUMNS)
    for text in view["form"]["warnings"]:
        remark(text)
