"""What tasks leave in the database: models, reports, journals, what is waited on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.pool.yard import ANN, Yard
from tests.waiting import eventually

from vetro import catalog, environments
from vetro.engine import EngineSettings
from vetro.engine.worker.deployment import TaskReports, WaitingReports
from vetro.environments import task_channel
from vetro.http import Conflict
from vetro.packages import build_archive


@pytest.mark.parametrize(
    "yard_settings",
    [
        {
            "enable_model_policy_enforcer": True,
            "model_policy_file": str(Path(__file__).parents[1] / "model.rules"),
        }
    ],
    indirect=True,
)
async def test_rules_about_models_refuse_and_change_what_is_deployed(yard: Yard) -> None:
    """A refused deployment runs nothing and says why; a changed one runs as it was changed."""
    yard.start()
    refused, sleeper, good = [await yard.submit(name) for name in ("Thrower", "Hoarder", "Greeter")]
    text = "Murano object model validation failed: \n    No Thrower here: app-1"
    assert await yard.errors(refused) == [text]
    assert not (await yard.ended(sleeper))["isException"]
    assert (await yard.model(sleeper))["services"][0]["times"] == 1
    assert not (await yard.ended(good))["isException"]


async def test_an_environment_lives_on_with_packages_that_were_deleted(
    yard: Yard, tmp_path: Path
) -> None:
    """After a forced deletion it deploys and is destroyed; then the archive is removed."""
    source = tmp_path / "kept"
    (source / "Classes").mkdir(parents=True)
    (source / "manifest.yaml").write_text(
        "{Format: '1.4', Type: Application, FullName: test.kept, Version: 1.2.0,"
        " Classes: {test.Kept: a.yaml}}"
    )
    (source / "Classes/a.yaml").write_text(
        "{Name: test.Kept, Extends: io.murano.Application, Methods: {deploy: {Body: []}}}"
    )
    build_archive(source, tmp_path / "kept.zip")
    packages = catalog.Catalog(yard.database, yard.settings.package_dir)
    row = await packages.upload(ANN, tmp_path / "kept.zip", catalog.UploadMetadata())
    yard.start()
    assert not (await yard.ended(await yard.submit("Kept", version="1.2.0")))["isException"]
    uses = environments.EnvironmentUses(yard.database)
    with pytest.raises(Conflict, match="is used by 1 environment: e1"):
        await packages.delete(ANN, row["id"], uses)
    await packages.delete(ANN, row["id"], uses, force=True)
    ([environment], _) = await yard.rooms.store.listing(ANN)
    session = await yard.rooms.sessions.configure(ANN, environment["id"])
    again = await yard.rooms.tasks.deploy(ANN, environment["id"], session["id"])
    assert again is not None
    assert not (await yard.ended(again))["isException"]
    removal = await yard.rooms.tasks.delete_environment(ANN, environment["id"], abandon=False)
    assert removal is not None
    assert len(list(yard.settings.package_dir.iterdir())) == 1
    await yard.gone(removal)
    assert await packages.drop_unused_packages(uses) == 1
    assert list(yard.settings.package_dir.iterdir()) == []


async def test_a_task_runs_in_a_worker_and_leaves_no_journal(yard: Yard) -> None:
    """Reports keep their order; the model is saved with the result; the journal is removed."""
    yard.start()
    task = await yard.submit("Greeter")
    assert await yard.ended(task) == {"result": None, "isException": False}
    texts = [text for _, text, _ in await yard.reports(task)]
    assert texts == ["Action deploy is scheduled", "one", "two", "Deployment finished"]
    assert (await yard.model(task))["services"][0]["said"] == "hello"
    await eventually(yard.journal_is_empty, "the journal is removed after the end is stored")


@pytest.mark.thorough
async def test_a_program_reads_what_a_form_encrypted(yard: Yard) -> None:
    """It has the text behind the reference; reports do not; another project's is not there."""
    secrets = yard.rooms.form_secrets
    await secrets.keep("p", None, {"own": "open sesame"})
    await secrets.keep("q", None, {"theirs": "shibboleth"})
    yard.start()
    task = await yard.submit("Keeper", key="own")
    assert not (await yard.ended(task))["isException"]
    assert (await yard.model(task))["services"][0]["size"] == len("open sesame")
    assert "got ***" in [text for _, text, _ in await yard.reports(task)]
    (refused,) = await yard.errors(await yard.submit("Keeper", key="theirs"))
    assert "the project has no secret 'theirs'" in refused


@pytest.mark.thorough
async def test_a_failing_program_leaves_no_journal(yard: Yard) -> None:
    """The report carries the message and the program's stack trace."""
    yard.start()
    task = await yard.submit("Thrower")
    assert await yard.errors(task) == ["it broke"]
    details = [details for level, _, details in await yard.reports(task) if level == "error"]
    assert "test.Thrower" in str(details[0])
    assert "all.yaml" in str(details[0])
    await eventually(yard.journal_is_empty, "the journal is removed after the end is stored")


async def test_a_failure_inside_the_engine_is_reported_with_the_request(
    yard: Yard, settings: EngineSettings
) -> None:
    """The report has the reason and the id to find in the log; the model is unchanged."""
    settings.signing_key_file.write_text("no key")
    yard.start()
    task = await yard.submit("Greeter", request_id="req-quoted")
    (error,) = await yard.errors(task)
    assert "SigningKeyError" in error
    assert "req-quoted" in error
    assert "said" not in (await yard.model(task))["services"][0]
    settings.signing_key_file.unlink()
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}


@pytest.mark.thorough
async def test_a_report_keeps_what_its_entity_is(yard: Yard) -> None:
    """Workflows say whether a line is about the environment, a service or a unit (§8)."""
    task_id = await yard.submit("Sleeper")
    claimed = await yard.rooms.tasks.claim("engine", 60, task_id=task_id)
    assert claimed is not None
    reports = TaskReports(yard.rooms, claimed[1])
    await reports.report("u1", "info", "of a unit", entity="unit")
    await reports.report("app-1", "info", "of an object")
    async with yard.database.read() as tx:
        stored = (await yard.rooms.tasks.history.reports(tx, task_id))[1:]
    assert [(one.entity_id, one.entity, one.text) for one in stored] == [
        ("u1", "unit", "of a unit"),
        ("app-1", None, "of an object"),
    ]


@pytest.mark.thorough
async def test_what_is_waited_on_is_stored(yard: Yard) -> None:
    """The newest text is stored, including the last one; a withdrawn text is removed."""
    task_id = await yard.submit("Sleeper")
    claimed = await yard.rooms.tasks.claim("engine", 60, task_id=task_id)
    assert claimed is not None
    told = WaitingReports(TaskReports(yard.rooms, claimed[1]))
    try:
        async with yard.database.listen(task_channel(task_id)) as subscription:
            for text in ("one", "two"):
                told.set(text)
            while await waiting_on(yard, task_id) != "two":
                await subscription.wait(60)
            told.set("")
            while await waiting_on(yard, task_id) is not None:
                await subscription.wait(60)
    finally:
        await told.close()


async def test_what_a_deployment_could_not_destroy_is_kept_with_the_environment(
    yard: Yard,
) -> None:
    """The deployment has a warning; the list has the object and the error, without its secrets."""
    yard.start()
    task = await yard.submit("Tenant", password="open sesame")
    assert not (await yard.ended(task))["isException"]
    ([environment], _) = await yard.rooms.store.listing(ANN)
    session = await yard.rooms.sessions.configure(ANN, environment["id"])
    await yard.rooms.sessions.change_objects(
        ANN, environment["id"], session["id"], lambda objects: objects.update(services=[])
    )
    removal = await yard.rooms.tasks.deploy(ANN, environment["id"], session["id"])
    assert removal is not None
    assert not (await yard.ended(removal))["isException"]
    warnings = [text for level, text, _ in await yard.reports(removal) if level == "warning"]
    assert warnings == [".destroy of test.Tenant app-1: the account of *** stays"]
    (row,) = await yard.rooms.tasks.endings.leaked.listing(ANN, environment["id"])
    assert (row["id"], row["type"]) == ("app-1", "test.Tenant")
    assert row["error"] == "the account of *** stays"
    assert row["deployment_id"] == removal


async def waiting_on(yard: Yard, task_id: str) -> str | None:
    """What a task waits on, as its user sees it."""
    rows, _ = await yard.rooms.tasks.history.deployments(ANN, None)
    return next(row["waiting_on"] for row in rows if row["id"] == task_id)


@pytest.mark.thorough
async def test_a_user_is_known_by_name(yard: Yard) -> None:
    """Programs see the deploying user's name; without an account, the id."""
    yard.start()
    task = await yard.submit("Curious")
    assert await yard.ended(task) == {"result": None, "isException": False}
    assert ("info", "id-ann of p", None) in await yard.reports(task)
