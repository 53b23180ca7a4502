"""Moves of applications to other versions of their packages; an engine runs in the test."""

import asyncio
import io
import zipfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.environments.conftest import next_call

from vetro.catalog import Catalog
from vetro.engine.system import library_path, system_runtime, trial_cloud
from vetro.engine.worker.back_ends import CatalogResolver
from vetro.engine.worker.upgrade_check import compare
from vetro.environments import CallAnswer, TaskResult, pinned_packages
from vetro.muranopl import DirectEffects, SessionInfo
from vetro.packages import open_package

Api = Any  # the fixture of conftest.py
SHOP = "org.Shop"
SHOP_1 = """
Namespaces: {=: org, std: io.murano}
Name: Shop
Extends: std:Application
Properties:
  name: {Contract: $.string().notNull()}
  port: {Contract: $.int().notNull(), Default: 80}
  old: {Contract: $.string()}
  shelf: {Contract: $.class(Shelf)}
  supplier: {Contract: $.class(Shop)}
  url: {Contract: $.string(), Usage: Out}
Methods:
  deploy:
    Body:
      - $.url: format('http://{0}:{1}', $.name, $.port)
---
Name: Shelf
Properties:
  boards: {Contract: $.int().notNull()}
"""
SHOP_11 = SHOP_1.replace(
    "  old: {Contract: $.string()}\n", "  colour: {Contract: $.string().notNull(), Default: red}\n"
).replace("Default: 80", "Default: 8080")
SHOP_2 = SHOP_11.replace(
    "name: {Contract: $.string().notNull()}",
    "name: {Contract: $.string().notNull()}\n  key: {Contract: $.string().notNull()}",
).replace(
    "boards: {Contract: $.int().notNull()}", "boards: {Contract: $.int().notNull().check($ > 2)}"
)


class Bench:
    """The API with a catalog of packages, and the engine behind it."""

    def __init__(self, api: Api, directory: Path, code: Path) -> None:
        self.api = api
        self.code = code
        self.catalog = Catalog(api.database, directory / "packages")

    def session(self, effects: DirectEffects, pinned: Any = None) -> Any:
        """A session as a worker has it: on a runtime of its own."""
        runtime = system_runtime(self.code)
        runtime.add_package(open_package(library_path() / "io.murano"))
        runtime.resolver = CatalogResolver(self.catalog, [], "p", pinned)
        info = SessionInfo(project_id="p", user_id="id-ann")
        return runtime.session(effects=effects, info=info, services=trial_cloud().services())

    async def serve(self) -> None:
        """Answer previews as an engine does."""
        calls = self.api.rooms.calls
        while True:
            claimed = await next_call(calls)
            if claimed is None:
                await calls.queue.wait_for_work(60)
                continue
            lease, call = claimed
            assert call.kind == "upgrade"
            pins = pinned_packages(call.arguments["model"])
            answer = await compare(lambda e, p=pins: self.session(e, p), call.arguments)
            await calls.answer(lease, CallAnswer(answer))

    async def upload(self, version: str, classes: str, name: str = SHOP, **more: Any) -> str:
        """Put a package into the catalog; its id."""
        names = [line.partition(": ")[2] for line in classes.splitlines() if "Name:" in line[:5]]
        listed = "".join(f"  org.{one}: all.yaml\n" for one in names)
        manifest = (
            f"Format: '1.4'\nType: Application\nFullName: {name}\nVersion: {version}\n"
            f"Name: Shop\nDescription: d\nAuthor: ann\nTags: []\nClasses:\n{listed}"
            f"Require: {more.get('require', '{}')}\n"
        )
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("manifest.yaml", manifest)
            archive.writestr("Classes/all.yaml", classes)
        answer = await self.api.upload(buffer.getvalue())
        assert answer.status == 200, answer.text
        return answer.json()["id"]

    async def add(self, environment: str, session: str, type_: str, **properties: Any) -> str:
        """Add an application; its id."""
        body = {"?": {"type": type_, "classVersion": "1.0.0"}, **properties}
        path = f"/environments/{environment}/services"
        answer = await self.api.call("POST", path, body, session=session)
        assert answer.status == 200, answer.text
        return answer.json()["?"]["id"]

    async def deploy(self, environment: str, session: str) -> dict[str, Any]:
        """Deploy a session with a real run of its program; the stored model."""
        await self.api.deploy(environment, session)
        lease, task = await self.api.take()
        run = self.session(DirectEffects(), pinned_packages(task.model))
        reply = await run.run_task_async({"action": task.action, "model": task.model})
        assert not reply.is_exception, reply.details
        await self.api.rooms.tasks.finish_task(lease, TaskResult(dict(reply.model)))
        return dict(reply.model)

    async def newer(self, environment: str) -> Any:
        """What the applications could move up to."""
        answer = await self.api.call("GET", f"/environments/{environment}/upgrades")
        assert answer.status == 200, answer.text
        return answer.json()["applications"]

    async def preview(self, environment: str, *wanted: Any, session: str = "") -> Any:
        """A preview."""
        path = f"/environments/{environment}/upgrades/preview"
        body = {"applications": list(wanted)} if wanted else None
        answer = await self.api.call("POST", path, body, session=session)
        assert answer.status == 200, answer.text
        return answer.json()

    async def upgrade(self, environment: str, session: str, *wanted: Any) -> Any:
        """The answer of an upgrade."""
        path = f"/environments/{environment}/upgrades"
        body = {"applications": list(wanted)} if wanted else None
        return await self.api.call("POST", path, body, session=session)

    async def service(self, environment: str, session: str = "") -> Any:
        """The first application."""
        path = f"/environments/{environment}/services"
        return (await self.api.call("GET", path, session=session)).json()[0]


@pytest.fixture
async def bench(
    api: Api, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Bench, None]:
    """A catalog with two versions of a shop and an engine that answers."""
    made = Bench(api, tmp_path, tmp_path_factory.getbasetemp() / "code")
    await made.upload("1.0.0", SHOP_1)
    serving = asyncio.create_task(made.serve())
    yield made
    serving.cancel()
    failed = await asyncio.gather(serving, return_exceptions=True)
    assert isinstance(failed[0], asyncio.CancelledError), failed


async def running_shop(bench: Bench, **properties: Any) -> tuple[str, str]:
    """An environment with a deployed shop at 1.0.0; their ids."""
    environment = await bench.api.environment("dev")
    session = await bench.api.session(environment)
    shop = await bench.add(environment, session, SHOP, name="shop", **properties)
    await bench.deploy(environment, session)
    return environment, shop


async def test_an_application_moves_to_the_newest_version_with_the_next_deploy(
    bench: Bench,
) -> None:
    """The move is listed, previewed by property and written into a session, then deployed."""
    environment, shop = await running_shop(bench, old="x", port=81)
    assert [one["newer"] for one in await bench.newer(environment)] == [[]]
    assert (await bench.preview(environment))["applications"] == []
    await bench.upload("1.1.0", SHOP_11)
    await bench.upload("1.2.0-rc.1", SHOP_11)
    (row,) = await bench.newer(environment)
    assert (row["version"], row["newest"], row["newer"]) == ("1.0.0", "1.1.0", ["1.1.0"])
    project = (await bench.api.call("GET", "/upgrades")).json()["environments"]
    assert {id_: [one["id"] for one in rows] for id_, rows in project.items()} == {
        environment: [shop]
    }
    assert (await bench.api.call("GET", "/upgrades", user="eve")).json()["environments"] == {}

    found = await bench.preview(environment)
    (one,) = found["applications"]
    assert (one["from"], one["to"], one["direction"]) == ("1.0.0", "1.1.0", "upgrade")
    assert (one["problems"], found["problems"], one["notes"]) == ([], [], [])
    (moved,) = one["objects"]
    assert {row["property"]: (row["change"], row["aspects"]) for row in moved["changes"]} == {
        "port": ("changed", ["default"]),
        "old": ("removed", []),
        "colour": ("added", []),
    }
    assert moved["changes"][0]["to"] == {
        "usage": "In",
        "contract": "$.int().notNull()",
        "default": 8080,
    }
    assert (await bench.service(environment))["?"]["type"] == f"{SHOP}/1.0.0@{SHOP}"

    session = await bench.api.session(environment)
    assert (await bench.upgrade(environment, session)).json() == found
    assert (await bench.service(environment))["?"]["type"] == f"{SHOP}/1.0.0@{SHOP}"
    assert (await bench.service(environment, session))["?"]["type"] == f"{SHOP}/1.1.0@{SHOP}"
    held = (await bench.api.call("GET", f"/environments/{environment}/sessions")).json()
    assert held["sessions"][0]["summary"] == "changed shop: ?.type"
    assert (await bench.deploy(environment, session))["SystemData"]["Packages"][SHOP] == ["1.1.0"]
    after = await bench.service(environment)
    assert after["?"]["id"] == shop
    assert (after["port"], after["colour"], after["url"]) == (81, "red", "http://shop:81")
    assert "old" not in after
    assert (await bench.api.call("GET", "/upgrades")).json()["environments"] == {}


async def test_an_incompatible_version_is_refused_until_its_properties_are_given(
    bench: Bench,
) -> None:
    """The errors name a required property and a value that a tighter contract refuses."""
    shelf = {"?": {"type": "org.Shelf", "classVersion": "1.0.0"}, "boards": 1}
    environment, shop = await running_shop(bench, shelf=shelf)
    await bench.upload("2.0.0", SHOP_2)
    found = await bench.preview(environment)
    (one,) = found["applications"]
    assert [row["class"] for row in one["objects"]] == [SHOP, "org.Shelf"]
    assert sorted(one["problems"]) == [
        "org.Shelf.boards must be more than 2",
        "org.Shop.key is required",
    ]
    session = await bench.api.session(environment)
    refused = await bench.upgrade(environment, session)
    assert (refused.status, refused.json()["error"]["type"]) == (409, "UpgradeRefused")
    assert "shop: org.Shop.key is required" in refused.json()["error"]["message"]
    assert refused.json()["error"]["preview"] == found
    assert (await bench.service(environment, session))["?"]["type"] == f"{SHOP}/1.0.0@{SHOP}"

    wanted = {"id": shop, "properties": {"key": "k", "shelf": None}}
    moved = await bench.upgrade(environment, session, wanted)
    assert moved.status == 200, moved.text
    await bench.deploy(environment, session)
    after = await bench.service(environment)
    assert (after["?"]["type"], after["key"]) == (f"{SHOP}/2.0.0@{SHOP}", "k")


async def test_what_only_the_program_refuses_is_found_by_loading_the_model(bench: Bench) -> None:
    """Loading finds a reference to an unmoved application and a class of a missing package."""
    environment, supplier = await running_shop(bench)
    session = await bench.api.session(environment)
    shop = await bench.add(environment, session, SHOP, name="branch", supplier=supplier)
    await bench.deploy(environment, session)
    await bench.upload("2.0.0", SHOP_11)
    (one,) = (await bench.preview(environment, {"id": shop}))["applications"]
    (problem,) = one["problems"]
    assert supplier in problem or "supplier" in problem
    # Both together: the reference is to the new version then.
    both = await bench.preview(environment)
    assert [row["problems"] for row in both["applications"]] == [[], []]
    assert both["problems"] == []
    # The supplier alone: the branch that stays needs the old one.
    found = await bench.preview(environment, {"id": supplier})
    (one,) = found["applications"]
    assert one["problems"], found
    assert one["shared"] == [
        {"id": supplier, "class": SHOP, "used_by": [{"id": shop, "name": "branch"}]}
    ]

    broken = SHOP_1.replace("std: io.murano}", "std: io.murano, lib: org.lib}").replace(
        "$.class(Shelf)", "$.class(lib:Rack)"
    )
    await bench.upload("3.0.0", broken, require="{org.lib: 1}")
    found = await bench.preview(environment, {"id": supplier, "version": "3"})
    (one,) = found["applications"]
    assert any("org.lib" in problem for problem in one["problems"]), found


async def test_an_object_of_a_required_package_moves_with_the_application(bench: Bench) -> None:
    """The new version requires another version of the package of an object inside it."""
    lib = "Namespaces: {=: org}\nName: Rack\nProperties:\n  size: {Contract: $.int()}\n"
    app = (
        "Namespaces: {=: org, std: io.murano}\nName: Depot\nExtends: std:Application\n"
        "Properties:\n  rack: {Contract: $.class(Rack).notNull()}\n"
        "Methods:\n  deploy: {Body: []}\n"
    )
    await bench.upload("1.0.0", lib, "org.lib")
    await bench.upload("1.0.0", app, "org.Depot", require="{org.lib: 1}")
    environment = await bench.api.environment("dev")
    session = await bench.api.session(environment)
    rack = {"?": {"type": "org.Rack", "classVersion": "1"}, "size": 3}
    depot = await bench.add(environment, session, "org.Depot", rack=rack)
    await bench.deploy(environment, session)
    await bench.upload("1.1.0", app, "org.Depot", require="{org.lib: 2}")
    (one,) = (await bench.preview(environment))["applications"]
    assert one["problems"] == [
        "org.Depot 1.1.0 requires org.lib 2, but the catalog has no such version with the class org.Rack"
    ]
    await bench.upload("2.3.0", lib, "org.lib")
    (one,) = (await bench.preview(environment))["applications"]
    moves = [(row["class"], row["from"], row["to"]) for row in one["objects"]]
    assert moves == [("org.Depot", "1.0.0", "1.1.0"), ("org.Rack", "1.0.0", "2.3.0")]
    assert one["problems"] == []
    session = await bench.api.session(environment)
    assert (await bench.upgrade(environment, session, {"id": depot})).status == 200
    model = await bench.deploy(environment, session)
    assert model["SystemData"]["Packages"]["org.lib"] == ["2.3.0"]


async def test_a_version_that_is_named_may_be_an_older_one(bench: Bench) -> None:
    """It may be the former version; the error for an unknown version names the known ones."""
    environment, shop = await running_shop(bench)
    await bench.upload("1.1.0", SHOP_11)
    session = await bench.api.session(environment)
    await bench.upgrade(environment, session)
    await bench.deploy(environment, session)
    (one,) = (await bench.preview(environment, {"id": shop, "version": "1.0.0"}))["applications"]
    assert (one["direction"], one["to"], one["problems"]) == ("downgrade", "1.0.0", [])
    (one,) = (await bench.preview(environment, {"id": shop}))["applications"]
    assert (one["direction"], one["to"], one["objects"]) == ("none", "1.1.0", [])
    (one,) = (await bench.preview(environment, {"id": shop, "version": "7"}))["applications"]
    assert one["problems"] == ["the catalog has no org.Shop 7; there are: 1.0.0, 1.1.0"]
    session = await bench.api.session(environment)
    wanted = {"id": shop, "version": "1.0.0"}
    assert (await bench.upgrade(environment, session, wanted)).status == 200
    assert (await bench.deploy(environment, session))["SystemData"]["Packages"][SHOP] == ["1.0.0"]


async def test_the_archive_of_the_old_version_goes_with_the_deploy(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package deleted by force stays while the environment uses it, then is removed."""
    environment, _ = await running_shop(bench)
    listed = (await bench.api.call("GET", "/catalog/packages?owned=true")).json()["packages"]
    await bench.upload("1.1.0", SHOP_11)
    path = f"/catalog/packages/{listed[0]['id']}"
    assert (await bench.api.call("DELETE", path)).status == 409
    assert (await bench.api.call("DELETE", f"{path}?force=true")).status == 200
    archives = tmp_path / "packages"
    assert len(list(archives.iterdir())) == 2
    session = await bench.api.session(environment)
    moved = await bench.upgrade(environment, session)
    assert moved.status == 200, moved.text
    assert moved.json()["applications"][0]["objects"][0]["changes"], "the old class is still read"
    assert len(list(archives.iterdir())) == 2
    dropped = asyncio.Event()
    drop = Catalog.drop_unused_packages

    async def watched(catalog: Catalog, uses: Any) -> int:
        count = await drop(catalog, uses)
        if count:
            dropped.set()
        return count

    monkeypatch.setattr(Catalog, "drop_unused_packages", watched)
    await bench.deploy(environment, session)
    await dropped.wait()
    assert len(list(archives.iterdir())) == 1


async def test_code_that_wants_effects_while_it_is_constructed_is_not_run_to_its_end(
    bench: Bench,
) -> None:
    """The preview says that it is incomplete, and no effect is executed."""
    environment, _ = await running_shop(bench)
    init = (
        "Methods:\n  .init:\n    Body:\n      - sleep(3600)\n"
        "      - new(sys:StatusReporter, environment => $this).report($this, made)\n"
    )
    with_init = SHOP_11.replace("Methods:\n", init, 1)
    with_init = with_init.replace("std: io.murano}", "std: io.murano, sys: io.murano.system}")
    await bench.upload("1.1.0", with_init)
    (one,) = (await bench.preview(environment))["applications"]
    assert one["problems"] == []
    assert one["notes"] == [
        "the construction of objects could not be previewed completely: it needs report"
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "with or without a list"),
        ({"applications": 5}, "with or without a list"),
        ({"applications": []}, "is empty"),
        ({"applications": [5]}, "must have its id"),
        ({"applications": [{"id": "a"}, {"id": "a"}]}, "listed twice"),
        ({"applications": [{"id": "a", "version": 1}]}, "must be text"),
        ({"applications": [{"id": "a", "version": "x"}]}, "not a version spec"),
        ({"applications": [{"id": "a", "properties": []}]}, "properties must be an object"),
        ({"applications": [{"id": "a", "properties": {"?": {}}}]}, "'?' is not a property"),
    ],
)
async def test_bad_requests_are_refused_before_anything_is_looked_at(
    api: Api, body: Any, said: str
) -> None:
    """Preview and upgrade answer 400 and say what is wrong."""
    environment, session = await api.opened()
    for part in ("", "/preview"):
        path = f"/environments/{environment}/upgrades{part}"
        answer = await api.call("POST", path, body, session=session)
        assert answer.status == 400, answer.text
        assert said in answer.json()["error"]["message"]


async def test_only_who_may_change_a_session_may_upgrade(api: Api) -> None:
    """Other projects see nothing; an upgrade needs a session; unknown applications are 404."""
    environment = await api.environment()
    base = f"/environments/{environment}/upgrades"
    for method, path in (("GET", base), ("POST", base), ("POST", f"{base}/preview")):
        body = None if method == "GET" else {}
        assert (await api.call(method, path, body, user="eve")).status == 403
    assert (await api.call("POST", base, {})).status == 400
    unknown = {"applications": [{"id": "nobody"}]}
    assert (await api.call("POST", f"{base}/preview", unknown)).status == 404


async def test_another_environment_gets_the_versions_of_the_last_run(bench: Bench) -> None:
    """They are read, given to the first deploy of a new environment, and preferred by it."""
    environment, _ = await running_shop(bench)
    await bench.upload("1.1.0", SHOP_11)
    api = bench.api
    path = f"/environments/{environment}/packages"
    fixed = (await api.call("GET", path)).json()
    assert fixed == {"packages": {SHOP: ["1.0.0"]}}
    other, session = await api.opened("copy")
    service = {"?": {"type": f"{SHOP}/1"}, "name": "shop"}
    await api.call("POST", f"/environments/{other}/services", service, session=session)
    path = f"/environments/{other}/packages"
    assert (await api.call("GET", path, session=session)).json() == {"packages": {}}
    wrong: list[Any] = [
        *(None, [], {}, {"packages": []}, {"packages": {"org.No": ["1.0.0"]}}),
        *({"packages": {SHOP: one}} for one in ("1.0.0", [], ["x"], ["1.0.0", "9.0.0"])),
    ]
    for body in wrong:
        assert (await api.call("PUT", path, body, session=session)).status == 400, body
    assert (await api.call("PUT", path, fixed)).status == 400  # no session
    assert (await api.call("PUT", path, fixed, session=session)).json() == fixed
    assert (await api.call("GET", path, session=session)).json() == fixed
    assert pinned_packages(await bench.deploy(other, session))[SHOP] == {"1.0.0"}
    session = await api.session(other)
    refused = await api.call("PUT", path, fixed, session=session)
    assert (refused.status, "upgrade" in refused.text) == (409, True)
