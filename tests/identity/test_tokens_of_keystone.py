"""Tokens of a Keystone: the cache, revocation, and a Keystone that does not answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.openstack.stub import Stub, serving
from tests.waiting import PATIENCE_SECONDS

from vetro.http import Forbidden, Principal, ServiceUnavailable
from vetro.identity.keystone.delegation import KeystoneDelegations
from vetro.identity.keystone.tokens import KeystoneTokens
from vetro.openstack import KeystonePlace, PasswordCredential, Session

ASK = "GET /v3/auth/tokens"


class Clock:
    """A monotonic clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def keystone() -> AsyncIterator[Stub]:
    """A Keystone that takes every token."""
    async with serving() as stub:
        stub.keystone()
        yield stub


@pytest.fixture
def clock() -> Clock:
    """The clock of the cache."""
    return Clock()


@pytest.fixture
async def tokens(
    keystone: Stub, clock: Clock, request: pytest.FixtureRequest
) -> AsyncIterator[KeystoneTokens]:
    """The authenticator of the stub's tokens, with the time that the test gives to answers."""
    given = PasswordCredential("vetro", "pw", "service")
    async with Session(
        keystone.url, given, timeout_seconds=getattr(request, "param", PATIENCE_SECONDS)
    ) as session:
        yield KeystoneTokens(session, cache_seconds=10, monotonic=clock)


async def test_a_token_becomes_its_user_project_and_roles(tokens: KeystoneTokens) -> None:
    """User, project, domain and roles are those that Keystone names."""
    known = await tokens.authenticate("t1")
    assert known is not None
    assert (known.user_id, known.user_name, known.project_id) == ("u1", "ann", "p1")
    assert (known.roles, known.domain_id, known.token) == ({"member"}, "default", "t1")


@pytest.mark.parametrize(
    ("named", "is_admin"), [(["member", "operator"], True), (["member", "admin"], False)]
)
async def test_the_operator_says_which_role_makes_an_administrator(
    tokens: KeystoneTokens, keystone: Stub, named: list[str], is_admin: bool
) -> None:
    """Keystone's role of that name is ours of `admin`; its own `admin` gives nothing then."""
    keystone.keystone(roles=[{"name": one} for one in named])
    tokens.admin_role = "operator"
    known = await tokens.authenticate("t1")
    assert known is not None
    assert known.is_admin is is_admin


async def test_requests_with_one_token_are_one_validation(
    tokens: KeystoneTokens, keystone: Stub
) -> None:
    """Fifty requests at once and one after them ask Keystone once."""
    assert all(await asyncio.gather(*(tokens.authenticate("t1") for _ in range(50))))
    assert await tokens.authenticate("t1")
    assert keystone.asked.count(ASK) == 1


async def test_a_revoked_token_is_refused_when_the_answer_is_old(
    tokens: KeystoneTokens, keystone: Stub, clock: Clock
) -> None:
    """After cache_seconds Keystone is asked again, and the token is not valid any more."""
    assert await tokens.authenticate("t1")
    keystone.answers[ASK] = lambda *_: (404, {"error": {"message": "Could not find token"}})
    clock.now += 9.9
    assert await tokens.authenticate("t1")
    clock.now += 0.2
    assert await tokens.authenticate("t1") is None


async def test_a_token_is_not_taken_longer_than_it_lives(
    tokens: KeystoneTokens, keystone: Stub
) -> None:
    """What ends before the cache's time is asked for again at its end."""
    keystone.keystone(expires_at="2020-01-01T00:00:00.000000Z")
    assert await tokens.authenticate("t1")
    await tokens.authenticate("t1")
    assert keystone.asked.count(ASK) == 2


@pytest.mark.parametrize("tokens", [2.0], indirect=True)
async def test_a_keystone_that_does_not_answer_is_no_refusal(
    tokens: KeystoneTokens, keystone: Stub, clock: Clock
) -> None:
    """500 and silence are 503 with the address; a fresh answer is used meanwhile; then it goes on."""
    assert await tokens.authenticate("t1")
    for answer in (lambda *_: (500, {"error": {"message": "database gone"}}), lambda *_: None):
        keystone.answers[ASK] = answer
        assert await tokens.authenticate("t1")
        with pytest.raises(ServiceUnavailable, match=f"{keystone.url}.*Check that it runs"):
            await tokens.authenticate("t2")
    clock.now += 60
    with pytest.raises(ServiceUnavailable):
        await tokens.authenticate("t1")
    keystone.keystone()
    assert await tokens.authenticate("t1")


async def test_a_refused_service_user_is_no_refusal_of_the_caller(
    tokens: KeystoneTokens, keystone: Stub
) -> None:
    """When Keystone does not take Vetro's own password, callers get 503 that names the user."""
    keystone.answers["POST /v3/auth/tokens"] = lambda *_: (401, {"error": {"message": "wrong"}})
    with pytest.raises(ServiceUnavailable, match="refuses the user vetro.*wrong"):
        await tokens.authenticate("t1")


async def test_vetros_own_token_is_renewed_when_it_was_revoked(
    tokens: KeystoneTokens, keystone: Stub
) -> None:
    """A 401 about the service's own token is a new login and not an answer about the caller's."""
    good = keystone.answers[ASK]
    refused = iter([(401, {"error": {"message": "The request you have made requires"}})])
    keystone.answers[ASK] = lambda *given: next(refused, good(*given))
    assert await tokens.authenticate("t1")
    assert keystone.asked.count("POST /v3/auth/tokens") == 2


async def test_hostile_tokens_never_reach_keystone(tokens: KeystoneTokens, keystone: Stub) -> None:
    """What no header can carry is not a token."""
    for hostile in ("", "a\nb", "ä", " ", "x" * 8193, "\0"):
        assert await tokens.authenticate(hostile) is None
    assert keystone.asked == []


async def test_a_token_without_a_project_is_nobodys(tokens: KeystoneTokens, keystone: Stub) -> None:
    """Unscoped and domain-scoped tokens are not for the catalog."""
    keystone.keystone(project=None)
    assert await tokens.authenticate("t1") is None


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_task_has_its_users_token_only_when_the_operator_lets_it(
    keystone: Stub, keeps: bool
) -> None:
    """The credential is made with the token; what the task keeps names the token or does not."""
    given: list[str] = []

    def made(headers: dict[str, str], body: Any) -> Any:
        given.append(headers["x-auth-token"])
        return 201, {"application_credential": {"id": "c1", "secret": "s1"}}

    keystone.answers["POST /v3/users/u1/application_credentials"] = made
    async with Session(keystone.url, PasswordCredential("vetro", "pw", "service")) as session:
        door = KeystoneDelegations(session, KeystonePlace(keystone.url), 1, tokens=keeps)
        caller = Principal("u1", "ann", "p1", token="t1")
        kept = await door.grant(caller)
    assert given == ["t1"]
    assert kept.pop("token", None) == ("t1" if keeps else None)
    assert kept == {"id": "c1", "secret": "s1", "user_id": "u1", "project_id": "p1"}


async def test_a_credential_that_keystone_mixes_up_is_asked_for_again(keystone: Stub) -> None:
    """A refusal for roles that nobody has named is asked again; one that stays is the caller's answer."""
    no = {"error": {"message": "Could not find role assignment with role: admin"}}
    answers: list[Any] = [
        (400, no),
        (201, {"application_credential": {"id": "c1", "secret": "s1"}}),
    ]
    answers += [(400, no)] * 3

    keystone.answers["POST /v3/users/u1/application_credentials"] = lambda _headers, _given: (
        answers.pop(0)
    )
    async with Session(keystone.url, PasswordCredential("vetro", "pw", "service")) as session:
        door = KeystoneDelegations(session, KeystonePlace(keystone.url), 1)
        caller = Principal("u1", "ann", "p1", token="t1")
        assert (await door.grant(caller))["id"] == "c1"
        with pytest.raises(Forbidden, match="Could not find role assignment"):
            await door.grant(caller)
    assert answers == []
