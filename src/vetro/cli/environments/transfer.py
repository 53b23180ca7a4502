"""``vetro env export`` and ``import``: what an environment is made of, as a file, and from one.

The file holds what a user decided: the applications with their inputs, the network that the environment
joins, and the versions of all packages that their last deployment used, those of required packages too. What
is named by id stands there by name, and its id beside (`references`).
What deployments left behind (addresses, results, the state of the program) stays where it is: an import is
deployed from the start.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, cast

import click

from vetro.cli.client.answers import Environment, JsonObject
from vetro.cli.client.connection import Connection, error_text, find_environment, segment
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.objects import Checker, application_name, objects_of
from vetro.cli.environments.references import Things, settle, with_names, wrong_reference
from vetro.cli.environments.sessions import open_session_of, remember_session
from vetro.cli.terminal.documents import json_in
from vetro.cli.terminal.output import PrintingCommand, counted, done, fail, word
from vetro.cli.terminal.paths import TEXT

FORMAT = "vetro-environment/1"
MAKE_IT = "Nothing was made. Make what is not here, or write the name or the id of another one."
_JOINED = "io.murano.resources.ExistingNeutronNetwork"
_MADE = ("status", "_actions")
"""What the service adds to the header of an object."""


@click.command("export", short_help="Write an environment's applications to a file.")
@click.argument("environment", type=ENVIRONMENT)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Not standard output."
)
def export(environment: str, output: Path | None) -> None:
    """Write what ENVIRONMENT is made of as JSON, for 'vetro env import' here or elsewhere.

    Your changes that are not deployed yet are in it. What the program found out (addresses, results) is not:
    an import is deployed from the start. Images, networks, volumes and whatever else has an id here are in
    it by name, with the id beside. Passwords of applications are in clear: the file is readable for you only.
    """
    with Connection() as connection:
        row = find_environment(connection, environment)
        session = open_session_of(connection, row, create_one=False)
        headers = {"X-Configuration-Session": session} if session else {}
        shown = connection.get(f"/v1/environments/{row['id']}", headers=headers)
        fixed = connection.get(f"/v1/environments/{row['id']}/packages", headers=headers)
        services, networks = _parts_of(connection, row, headers)
        references = with_names(Things(connection, row.get("region")), [*services, networks])
    document = {
        "format": FORMAT,
        "name": row["name"],
        **{key: shown[key] for key in ("region", "description_text") if shown.get(key)},
        "packages": fixed["packages"],
        **({"defaultNetworks": networks} if networks else {}),
        "services": services,
        "references": references,
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        fail(f"{output}: {error.strerror}")
    what = counted(len(services), "application")
    done(f"Environment {row['name']} with {what} is in {output}", file=str(output))


@click.command(
    "import", short_help="Make an environment from an exported file.", cls=PrintingCommand
)
@click.argument("file", type=TEXT)
@click.option("--name", help="Not the name in the file.")
def import_(file: TextIO, name: str | None) -> None:
    """Make a new environment of an exported FILE ('-': standard input).

    Nothing is deployed: its applications wait in your session. Their packages must be in the catalog, in
    the versions that were deployed last. What they name must be here, with the id in the file or by the
    name: images, flavors, key pairs, networks, volumes. Otherwise nothing is made.

    \b
    Examples:
      vetro env export web --output web.json
      vetro env import web.json --name copy
    """
    document = _read(file)
    versions = document.get("packages")
    services = cast("list[JsonObject]", document["services"])
    networks = cast("JsonObject", document.get("defaultNetworks") or {})
    references = cast("list[JsonObject]", document.get("references", []))
    with Connection() as connection:
        things = Things(connection, cast("str | None", document.get("region")))
        wrong = settle(things, [*services, networks], references)
        if wrong:
            fail(f"{file.name}: {'; '.join(wrong)}", MAKE_IT)
        *services, networks = with_new_ids([*services, networks])
        checker = things.classes
        for number, service in enumerate(services):
            checker.refuse_wrong(service, services[:number])
        body: JsonObject = {"name": name or document["name"]}
        body |= {key: document[key] for key in ("region", "description_text") if document.get(key)}
        body |= {"defaultNetworks": networks} if networks else {}
        row = connection.request("POST", "/v1/environments", json=body).json()
        path = f"/v1/environments/{segment(row['id'])}"
        session = connection.request("POST", f"{path}/configure").json()["id"]
        headers = {"X-Configuration-Session": session}
        given = [("PUT", "packages", {"packages": versions})] if versions else []
        given += [("POST", "services", services)] if services else []
        for method, part, content in given:
            answer = connection.answer(method, f"{path}/{part}", json=content, headers=headers)
            if answer.status >= 400:
                connection.request("DELETE", path, params={"abandon": "true"})
                fail(error_text(answer), "Nothing was created.")
        remember_session(row, session)
    what = counted(len(services), "application")
    done(
        f"Environment {row['name']} has {what}; 'vetro env deploy {word(row['name'])}' deploys it",
        id=row["id"],
        name=row["name"],
        applications=[application_name(one) for one in services],
    )


def applications_of(connection: Connection, row: Environment) -> list[JsonObject]:
    """The applications of an environment with their inputs, those too that wait in the user's session."""
    session = open_session_of(connection, row, create_one=False)
    headers = {"X-Configuration-Session": session} if session else {}
    return _parts_of(connection, row, headers)[0]


def _parts_of(
    connection: Connection, row: Environment, headers: Mapping[str, str]
) -> tuple[list[JsonObject], JsonObject]:
    """The applications with their inputs, and the networks if they are not the environment's own."""
    path = f"/v1/environments/{segment(row['id'])}"
    services = cast("list[JsonObject]", connection.get(f"{path}/services", headers=headers))
    # Environments of the first release have none.
    answer = connection.answer("GET", f"{path}/model/defaultNetworks", headers=headers)
    networks = cast("JsonObject", answer.json() or {}) if answer.status < 400 else {}
    joined = [str(node["?"].get("type", "")) for _, node in objects_of(networks)]
    if not any(one.startswith(_JOINED) for one in joined):
        networks = {}
    checker = Checker(connection)
    for _, node in objects_of([*services, networks]):
        keep_inputs(checker, node)
    return services, networks


def was_listed(service: dict[str, Any]) -> bool:
    """Whether a service said this of an application: it has a state or actions in its header."""
    return any(key in service["?"] for key in _MADE)


def keep_inputs(checker: Checker, node: dict[str, object]) -> None:
    """Take out of an object what the service and its program have added."""
    header = cast("JsonObject", node["?"])
    for key in _MADE:
        header.pop(key, None)
    inputs = checker.inputs(node)
    if inputs is not None:
        for key in [key for key in node if key != "?" and key not in inputs]:
            del node[key]


def _read(file: TextIO) -> JsonObject:
    found = json_in(file, "'vetro env export' writes such files.")
    document = cast("JsonObject", found) if isinstance(found, dict) else {}
    services: object = document.get("services")
    wrong = next(_wrong(document, services), None)
    if wrong is not None:
        fail(f"{file.name}: {wrong}", "'vetro env export' writes such files.")
    return document


def _wrong(document: JsonObject, services: object) -> Iterator[str]:
    if document.get("format") != FORMAT:
        yield f"not an exported environment: 'format' is not {FORMAT!r}"
    if not isinstance(document.get("name"), str):
        yield "'name' is not a text"
    if not isinstance(document.get("packages", {}), dict):
        yield "'packages' is not an object"
    if not isinstance(document.get("defaultNetworks", {}), dict):
        yield "'defaultNetworks' is not an object"
    references: object = document.get("references", [])
    if not isinstance(references, list):
        yield "'references' is not a list"
    elif any(map(wrong_reference, cast("list[object]", references))):
        yield "'references' has something else than kind, name, uuid, object and at"
    if not isinstance(services, list):
        yield "'services' is not a list"
        return
    for number, one in enumerate(cast("list[object]", services)):
        node: object = cast("JsonObject", one).get("?") if isinstance(one, dict) else None
        if not isinstance(node, dict) or not isinstance(cast("Any", node).get("type"), str):
            yield f"services, number {number}: not an object with a type"


def with_new_ids(services: list[JsonObject]) -> list[JsonObject]:
    """The applications with new ids, also where one names another: two imports share no object."""
    new = {
        str(node["?"]["id"]): uuid.uuid4().hex
        for _, node in objects_of(services)
        if isinstance(node["?"].get("id"), str)
    }

    def renamed(value: object) -> Any:
        if isinstance(value, dict):
            return {key: renamed(item) for key, item in cast("JsonObject", value).items()}
        if isinstance(value, list):
            return [renamed(item) for item in cast("list[object]", value)]
        return new.get(value, value) if isinstance(value, str) else value

    return [renamed(service) for service in services]
