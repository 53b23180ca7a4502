"""``vetro env``: compose environments, deploy them and follow what happens."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TextIO, cast
from urllib.parse import quote

import click

from vetro.cli.catalog.forms import Wizard
from vetro.cli.catalog.package_lookup import find_package
from vetro.cli.client.answers import Deployment, Environment, JsonObject
from vetro.cli.client.connection import (
    Connection,
    error_text,
    find_environment,
    hint_for,
    segment,
)
from vetro.cli.client.deployment_progress import (
    end_of,
    follow_deployment,
    latest_deployment,
    timeout_option,
    wait_option,
)
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.adding import adding_options, model_of, show_added
from vetro.cli.environments.applications import (
    application_row,
    show_applications,
)
from vetro.cli.environments.component_users import described, letting_go, uses_in
from vetro.cli.environments.destroying import destroy
from vetro.cli.environments.editing import find_application, parse_settings, session_and_services
from vetro.cli.environments.leaked import leaked, leaked_objects, show_leaked_count
from vetro.cli.environments.losing import unless_lost, without_asking
from vetro.cli.environments.machines_away import (
    MISSING,
    UNKNOWN,
    away_by_id,
    machines_away,
    states_away,
    status_away,
)
from vetro.cli.environments.objects import (
    Checker,
    objects_of,
    set_path,
)
from vetro.cli.environments.patching import REFUSE_USED, patch, patch_model, session
from vetro.cli.environments.restoring import restore
from vetro.cli.environments.sessions import (
    SESSION,
    open_session_of,
    opened_sessions,
    post_unless_pending,
    take_over,
)
from vetro.cli.environments.setting_completion import PROPERTY
from vetro.cli.environments.transfer import export, import_, keep_inputs, was_listed
from vetro.cli.environments.upgrade import newer_by_id, upgradable, upgrade
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.output import (
    PrintingGroup,
    chose_columns,
    done,
    emit_json,
    emit_object,
    emit_rows,
    fail,
    for_people,
    secrets_option,
    shown,
    wants_json,
    word,
)

_WORDS = {
    "new": "Ready to configure",
    "pending": "Ready to deploy",
    "deploying": "Deploying",
    "ready": "Ready",
    "machines missing": "Machines missing",
    "machines unknown": "Machines unknown",
    "deleting": "Deleting",
    "deploy failure": "Deploy failed",
    "delete failure": "Delete failed",
}


def with_status_words(
    environment: Mapping[str, object], away: Sequence[JsonObject] = ()
) -> dict[str, object]:
    """An environment of the API with the words for its status; as it is where programs read.

    A session that holds no changes leaves nothing to deploy, and what was never deployed is new
    (dashboard-and-cli.md A2). Nothing is ready over machines that are ``away``, for programs neither.
    """
    row = dict(environment)
    if away:
        row["machines_away"] = list(away)
        if row.get("status") == "ready":
            row["status"] = status_away(away)
    if not for_people():
        return row
    status = str(row.get("status"))
    if status == "pending" and row.get("has_changes") is False:
        status = "ready"
    if status == "ready" and row.get("version") == 0:
        status = "new"
    if status in _WORDS:
        row["status"] = _WORDS[status]
    return row


_TO_DO = {
    MISSING: "The next deployment makes it again, from its image.",
    UNKNOWN: "Its node is silent: 'vetro server list' shows which.",
}
COLUMNS = [
    ("ID", "id"),
    ("NAME", "name"),
    ("STATUS", "status"),
    ("KIND", "model_kind"),
    ("VERSION", "version"),
    ("CREATED", "created"),
    ("UPDATED", "updated"),
]
KEEP_KEYS = ["id", "name", "model_kind", "status", "version", "created", "updated", "acquired_by"]


@click.group(cls=PrintingGroup)
def env() -> None:
    """Environments: compose, deploy, follow, destroy."""


for command in (upgrade, export, import_, patch, session, leaked, destroy, restore):
    env.add_command(command)


@env.command("create")
@click.argument("name")
@click.option("--region", help="The region it is built in.")
@click.option("--join-net-id", "network", metavar="ID", help="Join this network (or its name).")
@click.option("--join-subnet-id", "subnet", metavar="ID", help="Join this subnet of it.")
def create(name: str, region: str | None, network: str | None, subnet: str | None) -> None:
    """Create an empty environment NAME."""
    body: dict[str, object] = {"name": name}
    if region:
        body["region"] = region
    if subnet and not network:
        fail("--join-subnet-id is a part of a network", "Name the network with --join-net-id.", 2)
    if network:
        joined = {
            "?": {"id": uuid.uuid4().hex, "type": "io.murano.resources.ExistingNeutronNetwork"},
            "internalNetworkName": network,
            "internalSubnetworkName": subnet,
        }
        body["defaultNetworks"] = {"environment": joined, "flat": None}
    with Connection() as connection:
        row = connection.request("POST", "/v1/environments", json=body).json()
    emit_object(row, None if wants_json() else ["id", "name", "version", "created"])


@env.command("list")
@click.option("--all-projects", is_flag=True, help="Of every project (administrators).")
@click.option("--project", metavar="ID", help="Of this project (administrators).")
def list_(all_projects: bool, project: str | None) -> None:
    """List environments."""
    with Connection() as connection:
        params = {"tenant": project} if project else {}
        if all_projects:
            params = {"all_tenants": "true"}
        rows = connection.get("/v1/environments", params=params)["environments"]
        newer = upgradable(connection)
        away = away_by_id(connection, rows)
    for row in rows:
        row["upgrades"] = newer.get(row["id"], [])
        row["newer"] = ", ".join(f"{one['name']} {one['newest']}" for one in row["upgrades"])
    columns = [*COLUMNS, ("NEWER", "newer")] if any(newer.values()) else COLUMNS
    emit_rows([with_status_words(row, away.get(row["id"], ())) for row in rows], columns)


@env.command("show", short_help="Show an environment and its applications.")
@click.argument("environment", type=ENVIRONMENT)
@SESSION
@click.option("--only-apps", is_flag=True, help="Print the applications alone, as JSON.")
@secrets_option
def show(environment: str, session: str | None, only_apps: bool) -> None:
    """Show ENVIRONMENT (name or id) and its applications."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        session = session or open_session_of(connection, row, create_one=False)
        headers = {"X-Configuration-Session": session} if session else {}
        value = shown(connection.get(f"/v1/environments/{row['id']}", headers=headers))
        if only_apps:
            emit_json(value["services"])
            return
        held = opened_sessions(connection, row)
        versions = newer_by_id(connection, row, headers)
        left = leaked_objects(connection, row)
        away = machines_away(value, states_away(connection))
    told = with_status_words(value, away)
    if wants_json():
        emit_json({**told, "versions": list(versions.values()), "leaked": left})
        return
    emit_object(told, KEEP_KEYS)
    if chose_columns():
        return
    click.echo()
    shown_one = [one for one in held if one["id"] == session]
    waiting = [change for one in shown_one for change in one["changes"]]
    show_applications(value.get("services", []), waiting, versions)
    for one in held:
        if one["changes"] and one["id"] != session:
            whose = "of yours" if one["own"] else f"of user {one['user_id']}"
            click.echo(f"\nNot deployed, in another session {whose}: {one['summary']}")
    if any(one["changes"] for one in held):
        click.echo(f"\nNot deployed yet: 'vetro env changes {word(row['name'])}' shows what.")
    if any(one["newer"] for one in versions.values()):
        click.echo(
            f"\n'vetro env upgrade {word(row['name'])} --preview' shows what a newer version changes."
        )
    for one in away:
        click.echo(
            f"\nMachine {one['name']} ({one['uuid']}) is {one['state']}. {_TO_DO[one['state']]}"
        )
    show_leaked_count(row, left)


@env.command("add", short_help="Add an application of a package.")
@click.argument("environment", type=ENVIRONMENT)
@adding_options
def add(
    environment: str,
    package: str | None,
    name: str | None,
    settings: tuple[str, ...],
    file: TextIO | None,
) -> None:
    """Add an application of PACKAGE to ENVIRONMENT, filling its form with defaults and --set.

    On a terminal it asks for fields that are still missing; elsewhere the command ends and names them.

    \b
    Example:
      vetro env add web ApacheHttpServer --name site --set page=Hello --set port=8080
    """
    with Connection() as connection:
        row = find_environment(connection, environment)
        if file is None and package:
            add_by_form(connection, row, package, name, parse_settings(settings))
            return
        model = model_of(file)
        with session_and_services(connection, row) as (headers, services):
            checker = Checker(connection, row.get("region"))
            for item in cast("list[object]", model if isinstance(model, list) else [model]):
                # The service refuses what is not an object.
                if isinstance(item, dict) and isinstance(cast("Any", item).get("?"), dict):
                    service = cast("JsonObject", item)
                    if was_listed(service):
                        for _, node in objects_of(service):
                            keep_inputs(checker, node)
                    checker.refuse_wrong(service, services)
                    services.append(service)
            path = f"/v1/environments/{row['id']}/services"
            stored = connection.request(
                "POST", path, json=cast("object", model), headers=headers
            ).json()
    show_added(stored)


def add_by_form(
    connection: Connection,
    row: Environment,
    package: str,
    name: str | None,
    settings: dict[str, object],
) -> None:
    """Fill in the form of a package and add what it makes."""
    found = find_package(connection, package)
    with (
        session_and_services(connection, row) as (headers, services),
        Wizard(connection, found, row, headers["X-Configuration-Session"]) as wizard,
    ):
        wizard.fill(wizard.place(settings, name))
        Checker(connection, row.get("region")).refuse_wrong(wizard.build(), services)
        show_added(wizard.finish())


@env.command("edit", short_help="Change properties of an application.")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("application")
@click.option(
    "--set",
    "settings",
    type=PROPERTY,
    multiple=True,
    metavar="PROPERTY=VALUE",
    required=True,
    help="A property; with dots one of an object inside.",
)
def edit(environment: str, application: str, settings: tuple[str, ...]) -> None:
    """Change properties of APPLICATION; they take effect with the next deploy.

    \b
    Example:
      vetro env edit web site --set port=8081 --set instance.flavor=m1.small
    """
    values = parse_settings(settings)
    with Connection() as connection:
        row = find_environment(connection, environment)
        with session_and_services(connection, row) as (headers, services):
            service = services.pop(find_application(services, application))
            for path, value in values.items():
                set_path(service, path, value)
            checker = Checker(connection, row.get("region"))
            checker.refuse_wrong_change(service, values, services)
            # Only this application: others may be added or changed at the same moment.
            where = f"/v1/environments/{row['id']}/services/{segment(str(service['?']['id']))}"
            stored = connection.request(
                "PUT", where, json=service, headers=headers, params=REFUSE_USED
            ).json()
    emit_object(stored)


@env.command("remove", short_help="Take an application out.")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("application")
@click.option(
    "--let-go", "letting", is_flag=True, help="Others that use it do without from now on."
)
def remove(environment: str, application: str, letting: bool) -> None:
    """Take APPLICATION out; its machines go with the next deploy.

    When others use it they are named, and nothing is changed. With --let-go they do without it, as far as
    their classes allow that.
    """

    with Connection() as connection:
        row = find_environment(connection, environment)
        with session_and_services(connection, row) as (headers, services):
            service = services[find_application(services, application)]
            name = application_row(service)["name"] or application
            base = f"/v1/environments/{row['id']}"
            where = f"{base}/services/{segment(str(service['?']['id']))}"
            answer = connection.answer("DELETE", where, headers=headers, params=REFUSE_USED)
            used = uses_in(answer)
            if used and not letting:
                fail(
                    f"{name} is in use: {'; '.join(described(one) for one in used)}",
                    f"'vetro env remove {word(row['name'])} {word(application)} --let-go' lets them do"
                    " without, 'vetro env edit' gives them another one.",
                )
            if used:
                steps = letting_go(Checker(connection), services, used)
                steps.append({"op": "remove", "path": f"/services/{service['?']['id']}"})
                patch_model(connection, base, steps, headers)
            elif answer.status >= 400:
                fail(error_text(answer), hint_for(answer))
    env_name = word(row["name"])
    done(
        f"Removed {name}; deploy to make it so. Until then 'vetro env changes {env_name} --discard' takes it"
        f" back, afterwards 'vetro env restore {env_name}', but not what was on its machines",
        removed=service,
        let_go=used,
    )


@env.command("deploy", short_help="Deploy the changes; exit 1 when it fails.")
@click.argument("environment", type=ENVIRONMENT)
@wait_option
@timeout_option
@click.option(
    "--leave-pending",
    is_flag=True,
    help="Also when other sessions hold changes; they can be taken over afterwards.",
)
@yes_option
@SESSION
def deploy(
    environment: str,
    wait: bool,
    seconds: float | None,
    leave_pending: bool,
    session: str | None,
) -> None:
    """Deploy the changes of ENVIRONMENT; exit 1 when it fails.

    When it would replace or remove a machine, a volume or an address, nothing is changed: it says what
    would be lost, and asks. Without a terminal it ends; with --yes it goes on and loses it. With --no-wait
    nobody is asked: it fails, or with --yes loses what it must.

    When other sessions hold changes that are not deployed, it asks, or ends with what they hold.
    """
    with Connection() as connection:
        row = find_environment(connection, environment)

        def send(may_lose: list[str], *, again: bool = False) -> Deployment:
            used = session
            if again and not any(one["id"] == used for one in opened_sessions(connection, row)):
                used = None  # a part of it was deployed, and it has ended
            used = segment(used or open_session_of(connection, row) or "")
            post_unless_pending(
                connection,
                f"/v1/environments/{row['id']}/sessions/{used}/deploy",
                agreed=leave_pending or again,
                question="Deploy without them? They stay, and can be taken over afterwards",
                option="--leave-pending",
                may_lose=may_lose,
            )
            return latest_deployment(connection, row["id"])

        if not wait:
            deployment = send(without_asking())
            emit_object(deployment, None if wants_json() else ["id", "state", "started"])
            return
        _, ended = unless_lost(
            row,
            lambda may_lose: send(may_lose, again=bool(may_lose))["id"],
            lambda task: end_of(connection, row, task, seconds),
        )
        sys.exit(ended.code)


@env.command("changes", short_help="Show the changes that are not deployed.")
@click.argument("environment", type=ENVIRONMENT)
@click.option(
    "--take-over", "taking", is_flag=True, help="Keep overtaken changes for the next deploy."
)
@click.option("--discard", is_flag=True, help="Drop changes of yours; what is dropped is printed.")
@yes_option
@click.option("--session", help="Only this session.")
def changes(environment: str, taking: bool, discard: bool, session: str | None) -> None:
    """Show the changes of ENVIRONMENT that are not deployed, or take them over, or drop them.

    A deployment or an action overtakes the changes that wait in other sessions: they cannot be
    deployed as they are. --take-over makes them once more, on what is deployed now.
    """
    if taking and discard:
        fail("--take-over and --discard exclude each other", exit_code=2)
    with Connection() as connection:
        row = find_environment(connection, environment)
        held = [one for one in opened_sessions(connection, row) if one["changes"]]
        if session is not None:
            held = [one for one in held if one["id"] == session]
            if not held:
                fail(
                    f"There is no session '{session}' with changes in {row['name']}",
                    f"'vetro env changes {word(row['name'])}' shows them.",
                )
        own = [one for one in held if one["own"]]
        if taking:
            wanted = [one for one in own if one["overtaken"]][:1]
            if not wanted:
                fail(f"None of your changes of {row['name']} was overtaken")
            if take_over(connection, row, wanted[0]["id"]) is None:
                sys.exit(1)
            held = [one for one in opened_sessions(connection, row) if one["changes"]]
        elif discard:
            if not own:
                fail(f"You have no changes in {row['name']}")
            agree(f"This would be dropped: {'; '.join(one['summary'] for one in own)}", "Drop them")
            for one in own:
                path = f"/v1/environments/{row['id']}/sessions/{segment(one['id'])}"
                connection.request("DELETE", path)
            said = "; ".join(one["summary"] for one in own)
            done(f"Dropped: {said}", dropped=own)
            return
    emit_rows(
        [
            {
                **one,
                "whose": "yours" if one["own"] else one["user_id"],
                "deployable": not one["overtaken"],
            }
            for one in held
        ],
        [
            ("SESSION", "id"),
            ("WHOSE", "whose"),
            ("DEPLOYABLE", "deployable"),
            ("CHANGES", "summary"),
        ],
    )


@env.command("follow", short_help="Show the newest deployment as it goes.")
@click.argument("environment", type=ENVIRONMENT)
def follow(environment: str) -> None:
    """Show the reports of the newest deployment as they come; exit 1 when it fails."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        deployment = latest_deployment(connection, row["id"])
        sys.exit(follow_deployment(connection, row, deployment["id"]))


@env.command("rename")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("name")
def rename(environment: str, name: str) -> None:
    """Give ENVIRONMENT another NAME."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        value = connection.request(
            "PUT", f"/v1/environments/{row['id']}", json={"name": name}
        ).json()
    emit_object(value, None if wants_json() else ["id", "name", "version"])


@env.command("model", short_help="Print the object model as JSON.")
@click.argument("environment", type=ENVIRONMENT)
@click.option("--path", default="/", help="A part of the model, for example /services.")
@click.option("--raw", is_flag=True, help="Print a text as it is, without quotes.")
@click.option("--session", metavar="ID", help="As this session has it, not as it was deployed.")
def model(environment: str, path: str, raw: bool, session: str | None) -> None:
    """Print the object model of ENVIRONMENT as JSON."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        value = connection.request(
            "GET",
            f"/v1/environments/{row['id']}/model/{quote(path.lstrip('/'), safe='/')}",
            headers={"X-Configuration-Session": session} if session else None,
            hint="A path is made of keys, ids of objects and positions: /services/0/name.",
        ).json()
    if raw and isinstance(value, str):
        click.echo(value)
    else:
        emit_json(value)
