"""Changes that are not deployed: nothing takes them away without saying so."""

from typing import Any

import pytest

from vetro.environments.pending import carry_over, changes, described

Api = Any  # the fixture of conftest.py


def app(id_: str, type_: str = "org.App", **properties: Any) -> dict[str, Any]:
    return {"?": {"id": id_, "type": type_}, **properties}


def root(*services: Any, **properties: Any) -> dict[str, Any]:
    return {
        "?": {"id": "e", "type": "io.murano.Environment"},
        "services": [*services],
        **properties,
    }


async def deployed(api: Api) -> tuple[str, str]:
    """An environment with the deployed application ``web`` that has an action ``act``."""
    environment, session = await api.opened()
    web = await api.add(environment, session, name="web", port=80)
    await api.deploy(environment, session)
    lease, task = await api.take()
    header = task.model["Objects"]["applications"][0]["?"]
    header["_actions"] = {"act": {"name": "restart", "enabled": True}}
    from vetro.environments import TaskResult

    await api.rooms.tasks.finish_task(lease, TaskResult({**task.model, "ObjectsCopy": {}}))
    return environment, web["?"]["id"]


async def edited(api: Api, environment: str, web: str, user: str = "ann") -> str:
    """A session in which the port is changed and three applications are added."""
    session = await api.session(environment, user)
    path = f"/environments/{environment}/services"
    answer = await api.call("PUT", f"{path}/{web}/port", 8080, session=session)
    assert answer.status == 200, answer.text
    for name in ("a", "b", "c"):
        await api.add(environment, session, name=name)
    return session


SAID = "added a (org.App); added b (org.App); added c (org.App)"


async def overtake(api: Api, environment: str, how: str) -> None:
    """Something else is deployed: an action, another session, a deletion that fails."""
    base = f"/environments/{environment}"
    if how == "action":
        assert (await api.call("POST", f"{base}/actions/act", {})).status == 200
        await api.finish()
    elif how == "deployment":
        await api.deploy(environment, await api.session(environment, "bob"))
        await api.finish()
    else:
        assert (await api.call("DELETE", base)).status == 200
        lease, _ = await api.take()
        await api.rooms.tasks.fail_task(lease, "the engine died")


@pytest.mark.parametrize("how", ["action", "deployment", "deletion"])
async def test_an_overtaken_session_says_what_it_holds_and_is_carried_over(
    api: Api, how: str
) -> None:
    """An overtaken session is refused with the changes at stake; a rebase keeps them all."""
    environment, web = await deployed(api)
    session = await edited(api, environment, web)
    await overtake(api, environment, how)
    base = f"/environments/{environment}"
    tries = [
        ("POST", f"{base}/sessions/{session}/deploy"),
        ("GET", f"{base}/sessions/{session}"),
        ("DELETE", f"{base}/services/{web}"),
    ]
    for method, path in tries:
        answer = await api.call(method, path, session=session)
        assert answer.status == 403
        message = answer.json()["error"]["message"]
        assert "changed web: port" in message, message
        assert SAID in message
        assert "/rebase" in message
    # A second one overtakes it again: the changes are still told from the model they were made on.
    await overtake(api, environment, "deployment")
    answer = await api.call("POST", f"{base}/sessions/{session}/rebase")
    assert answer.status == 200, answer.text
    again = answer.json()["id"]
    services = (await api.call("GET", f"{base}/services", session=again)).json()
    assert [one["name"] for one in services] == ["web", "a", "b", "c"]
    assert services[0]["port"] == 8080
    assert services[0]["?"]["_actions"]
    await api.deploy(environment, again)
    assert len((await api.finish()).model["Objects"]["applications"]) == 4
    assert (await api.call("GET", f"{base}/sessions/{session}")).status == 404


@pytest.mark.parametrize("what", ["action", "deployment"])
async def test_who_asks_to_be_refused_overtakes_nothing(api: Api, what: str) -> None:
    """The 409 names the session, its user and its changes; no task is submitted."""
    environment, web = await deployed(api)
    session = await edited(api, environment, web, user="bob")
    base = f"/environments/{environment}"
    path = f"{base}/actions/act"
    if what == "deployment":
        path = f"{base}/sessions/{await api.session(environment)}/deploy"
    answer = await api.call("POST", f"{path}?pending=refuse")
    assert answer.status == 409
    error = answer.json()["error"]
    assert session in error["message"]
    assert "of user id-bob" in error["message"]
    assert SAID in error["message"]
    assert error["type"] == "PendingChanges"
    assert await api.rooms.tasks.claim("engine", 60) is None
    assert (await api.call("GET", f"{base}/sessions/{session}", user="bob")).status == 200
    assert (await api.call("POST", f"{path}?pending=maybe")).status == 400
    # Without being asked it is as clients know it: the first one wins.
    assert (await api.call("POST", path)).status == 200


async def test_a_session_without_changes_stands_in_nobodys_way(api: Api) -> None:
    """An opened session without changes is no reason to refuse."""
    environment, _ = await deployed(api)
    untouched = await api.session(environment, "bob")
    path = f"/environments/{environment}"
    same = (await api.call("GET", f"{path}/services", session=untouched, user="bob")).json()
    answer = await api.call("PUT", f"{path}/services", same, session=untouched, user="bob")
    assert answer.status == 200
    assert (await api.call("POST", f"{path}/actions/act?pending=refuse")).status == 200


async def test_opened_sessions_are_listed_with_their_changes(api: Api) -> None:
    """The list has user, changes and whether it was overtaken; other projects see nothing."""
    environment, web = await deployed(api)
    mine = await edited(api, environment, web)
    path = f"/environments/{environment}/sessions"
    (row,) = (await api.call("GET", path)).json()["sessions"]
    assert (row["id"], row["own"], row["overtaken"]) == (mine, True, False)
    assert described(row["changes"]) == f"changed web: port; {SAID}"
    (row,) = (await api.call("GET", path, user="bob")).json()["sessions"]
    assert row["own"] is False
    await overtake(api, environment, "action")
    (row,) = (await api.call("GET", path)).json()["sessions"]
    assert row["overtaken"] is True
    assert described(row["changes"]) == f"changed web: port; {SAID}"
    assert (await api.call("GET", path, user="eve")).status == 403
    assert (await api.call("POST", f"{path}/{mine}/rebase", user="bob")).status == 401
    assert (await api.call("POST", f"{path}/{mine}/rebase", user="eve")).status == 403


async def test_an_environment_says_whether_a_session_holds_changes(api: Api) -> None:
    """Pending is one with any open session; a form that was left, or a change that was undone, are no
    changes to deploy. The list and the environment itself say the same, and stock clients see neither."""
    environment, web = await deployed(api)
    base = f"/environments/{environment}"

    async def shown() -> tuple[str, bool]:
        one = (await api.call("GET", base, fields="all")).json()
        (row,) = (await api.call("GET", "/environments", fields="all")).json()["environments"]
        assert (one["status"], one["has_changes"]) == (row["status"], row["has_changes"])
        return row["status"], row["has_changes"]

    assert await shown() == ("ready", False)
    session = await api.session(environment)
    assert await shown() == ("pending", False)
    port = f"{base}/services/{web}/port"
    await api.call("PUT", port, 8080, session=session)
    assert await shown() == ("pending", True)
    await api.call("PUT", port, 80, session=session)
    assert await shown() == ("pending", False)
    await api.call("PUT", port, 8080, session=session)
    await overtake(api, environment, "deployment")
    assert await shown() == ("ready", False)
    kept = await api.call("POST", f"{base}/sessions/{session}/rebase")
    assert kept.status == 200
    assert await shown() == ("pending", True)
    await api.deploy(environment, kept.json()["id"])
    assert await shown() == ("deploying", False)
    assert "has_changes" not in (await api.call("GET", base)).json()


async def test_a_change_of_what_is_gone_is_refused_and_kept(api: Api) -> None:
    """The rebase names the impossible change, and the session still has it."""
    environment, web = await deployed(api)
    session = await edited(api, environment, web)
    other = await api.session(environment, "bob")
    path = f"/environments/{environment}"
    assert (await api.call("DELETE", f"{path}/services/{web}", session=other)).status == 200
    await api.deploy(environment, other)
    await api.finish()
    answer = await api.call("POST", f"{path}/sessions/{session}/rebase")
    assert answer.status == 409
    assert "web was changed, but no longer exists" in answer.json()["error"]["message"]
    (row,) = (await api.call("GET", f"{path}/sessions")).json()["sessions"]
    assert described(row["changes"]) == f"changed web: port; {SAID}"


@pytest.mark.parametrize(
    ("base", "mine", "current", "expected", "lost"),
    [
        # Both sides change different things: both stay.
        (root(app("w", a=1, b=1)), root(app("w", a=2, b=1)), root(app("w", a=1, b=5)),
         root(app("w", a=2, b=5)), []),
        # Both change one value: the pending one is the newer wish.
        (root(app("w", a=1)), root(app("w", a=2)), root(app("w", a=3)), root(app("w", a=2)), []),
        # Added on both sides, removed on both sides.
        (root(app("w"), app("x")), root(app("w"), app("m")), root(app("w"), app("x"), app("n")),
         root(app("w"), app("n"), app("m")), []),
        # What I did not touch is gone.
        (root(app("w"), app("x")), root(app("w", a=1), app("x")), root(app("w")),
         root(app("w", a=1)), []),
        (root(app("w", o=app("i", a=1, b=1))), root(app("w", o=app("i", a=2, b=1))),
         root(app("w", o=app("i", a=1, b=2, c=3))), root(app("w", o=app("i", a=2, b=2, c=3))), []),
        # Lists of plain values, removed and added properties, the root's own.
        (root(app("w", p=[1, 2], q=1)), root(app("w", p=[1])), root(app("w", p=[1, 2], q=1, r=2)),
         root(app("w", p=[1], r=2)), []),
        (root(name="e"), root(name="f"), root(name="e", region="x"),
         root(name="f", region="x"), []),
        (root(app("w", a=1)), root(app("w", a=True)), root(app("w", a=1, b=2)),
         root(app("w", a=True, b=2)), []),
    ],
)  # fmt: skip
def test_changes_are_carried_over(
    base: Any, mine: Any, current: Any, expected: Any, lost: list[str]
) -> None:
    """The three-way merge keeps the changes of both sides."""
    assert carry_over(base, mine, current) == (expected, lost)
    assert repr(carry_over(base, mine, current)[0]) == repr(expected)


def test_changes_are_named_without_their_values() -> None:
    """Applications and dotted properties are named; the service's own writes are not."""
    secret = "hunter2"
    before = root(app("w", "org.W/1.0@p", name="web", db=app("d", password="x")), app("x"))
    after = root(app("w", "org.W/1.0@p", name="web", db=app("d", password=secret)), app("n", "o.N"))
    after["?"]["updated"] = "now"
    after["services"][0]["?"]["status"] = "pending"
    after["region"] = "r"
    found = changes(before, after)
    assert described(found) == (
        "changed web: db.password; added n (o.N); removed x; changed the environment: region"
    )
    assert secret not in repr(found)
    assert changes(before, before) == []
