"""A Heat that answers 409, 500, a page for people, or nothing (tests/openstack has the real one)."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.openstack.stub import Answer, Stub, serving

from vetro.openstack import PasswordCredential, Session
from vetro.stacks import StackBusy, StackError, StackStatus
from vetro.stacks.heat import CinderDirectory, HeatSettings, HeatStacks, NeutronDirectory, Patience

TEMPLATE = {"heat_template_version": "2013-05-23", "resources": {"a": {"type": "OS::Heat::Value"}}}
STACKS = "/orchestration/stacks"
SAYS_NO = 409, {"error": {"message": "Stack s already has an action (UPDATE) in progress."}}
BROKEN = 500, {"error": {"message": "database gone"}}
PAGE = 200, {"a page": "for people"}, {"Content-Type": "text/html"}


class Heat:
    """One stack at a stub: each request takes the next of the answers that a test has put before it."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.status = ""
        stub.keystone("orchestration", "network")
        self.answer(f"POST {STACKS}", self.create)
        self.answer(f"GET {STACKS}/s", self._show)
        self.answer(f"GET {STACKS}/s/1", self._show)
        self.answer(f"PUT {STACKS}/s/1", self._update)
        self.answer(f"DELETE {STACKS}/s/1", self._delete)
        for part in ("events", "resources", "template", "environment", "files"):
            self.answer(f"GET {STACKS}/s/1/{part}", self._content)

    def answer(self, call: str, answer: Any) -> None:
        """How a call is answered from now on."""
        self.stub.answers[call] = lambda _headers, _given: answer()

    def first(self, call: str, *answers: Answer) -> None:
        """How a call is answered at first; then as before."""
        usual = self.stub.answers[call]
        left = list(answers)

        def answer(headers: dict[str, str], given: Any) -> Answer:
            return left.pop(0) if left else usual(headers, given)

        self.stub.answers[call] = answer

    def asked(self, call: str) -> int:
        """How many times."""
        return self.stub.asked.count(call)

    def create(self) -> Answer:
        if self.status:
            return SAYS_NO
        self.status = "CREATE_COMPLETE"
        return 201, {"stack": {"id": "1"}}

    def _content(self) -> Answer:
        own = {"id": self.status, "physical_resource_id": "1", "resource_name": "s"}
        time = {"event_time": "2026-01-01T00:00:00Z", "resource_status": self.status}
        return 200, {"resources": [], "events": [own | time]}

    def _update(self) -> Answer:
        self.status = "UPDATE_COMPLETE"
        return 202, "<html>202 Accepted</html>", {"Content-Type": "text/html"}  # as Heat does

    def _delete(self) -> Answer:
        self.status = ""
        return 204, None

    def _show(self) -> Answer:
        if not self.status:
            return 404, {"error": {"message": "no stack"}}
        shown = {"id": "1", "stack_name": "s", "creation_time": "2026-01-01T00:00:00Z"}
        shown |= {"tags": ["vetro"]}
        updated = "2026-01-01T00:00:01Z" if self.status == "UPDATE_COMPLETE" else None
        return 200, {"stack": {**shown, "stack_status": self.status, "updated_time": updated}}


def shown(status: str, reason: str = "") -> Answer:
    """The stack in a state."""
    times = {"creation_time": "2026-01-01T00:00:00Z", "updated_time": None}
    state = {"stack_status": status, "stack_status_reason": reason, "tags": ["vetro"]}
    return 200, {"stack": {"id": "1", "stack_name": "s", **times, **state}}


CANCELLED = shown("CREATE_FAILED", "Stack CREATE cancelled")


@pytest.fixture
async def heat() -> AsyncIterator[Heat]:
    """A Heat without stacks."""
    async with serving() as stub:
        yield Heat(stub)


@pytest.fixture
async def session(heat: Heat) -> AsyncIterator[Session]:
    """A session that waits a second for answers."""
    given = PasswordCredential("ann", "pw", "demo")
    async with Session(heat.stub.url, given, timeout_seconds=1.0) as one:
        yield one


@pytest.fixture
def stacks(session: Session) -> HeatStacks:
    """The back end; four seconds without an answer are too many."""
    patience = Patience(4.0, first_pause=0.01)
    return HeatStacks(session, HeatSettings(patience=patience, first_pause=0.01), token="the-users")


@pytest.mark.parametrize("shown_late", [False, True])
async def test_a_creation_whose_answer_is_lost_is_one_creation(
    heat: Heat, stacks: HeatStacks, shown_late: bool
) -> None:
    """Heat makes the stack and says nothing: it is found, and a refused second creation is no failure."""

    def silent() -> Answer:
        answer = heat.create()
        return answer if answer == SAYS_NO else None

    if shown_late:
        heat.first(f"GET {STACKS}/s", (404, None))

    heat.answer(f"POST {STACKS}", silent)
    said: list[str] = []
    made = await stacks.create("p", "s", TEMPLATE, progress=said.append)
    assert made.status is StackStatus.CREATE_COMPLETE
    assert heat.asked(f"POST {STACKS}") == (2 if shown_late else 1)
    assert "an answer of orchestration" in said[0]


@pytest.mark.parametrize("answer", [BROKEN, PAGE, (429, None), (503, None), None])
async def test_every_step_outlives_a_heat_that_is_away(
    heat: Heat, stacks: HeatStacks, answer: Answer
) -> None:
    """Whatever is asked first gets no usable answer twice; creation, change, reading and removal succeed."""
    for call in list(heat.stub.answers):
        if STACKS in call:
            heat.first(call, answer)
    assert (await stacks.create("p", "s", TEMPLATE)).status is StackStatus.CREATE_COMPLETE
    for call in list(heat.stub.answers):
        if STACKS in call:
            heat.first(call, answer)
    assert await stacks.get("p", "s")
    assert (await stacks.update("p", "s", TEMPLATE)).status is StackStatus.UPDATE_COMPLETE
    for call in list(heat.stub.answers):
        if STACKS in call:
            heat.first(call, answer)
    assert await stacks.lost("p", "s") == []
    assert await stacks.delete("p", "s") is None
    assert await stacks.head("p", "s") is None


@pytest.mark.parametrize("work", ["get", "head", "lost", "delete"])
async def test_a_heat_that_stays_away_is_given_up(
    heat: Heat, stacks: HeatStacks, work: str
) -> None:
    """After the time for it the failure names the stack, Heat's address and what Heat said last."""
    heat.answer(f"GET {STACKS}/s", lambda: BROKEN)
    with pytest.raises(StackError, match=f"stacks/s: given up.*{heat.stub.url}.*database gone"):
        await getattr(stacks, work)("p", "s")


async def test_a_conflict_is_told_apart_from_an_absence(heat: Heat, stacks: HeatStacks) -> None:
    """409 is `StackBusy`, for callers that wait until the stack is free; it changes nothing."""
    heat.status = "CREATE_COMPLETE"
    with pytest.raises(StackBusy):
        await stacks.create("p", "s", TEMPLATE)
    heat.first(f"PUT {STACKS}/s/1", SAYS_NO)
    with pytest.raises(StackBusy):
        await stacks.update("p", "s", TEMPLATE)
    heat.first(f"DELETE {STACKS}/s/1", SAYS_NO)
    with pytest.raises(StackBusy):
        await stacks.delete("p", "s")
    assert heat.status == "CREATE_COMPLETE"


async def test_the_name_of_a_stack_that_is_going_is_waited_for(
    heat: Heat, stacks: HeatStacks
) -> None:
    """Heat refuses a name whose stack it shows no more: it is asked again."""
    heat.first(f"POST {STACKS}", SAYS_NO, SAYS_NO)
    assert (await stacks.create("p", "s", TEMPLATE)).status is StackStatus.CREATE_COMPLETE
    assert heat.asked(f"POST {STACKS}") == 3


async def test_an_operation_that_heat_does_not_end(
    heat: Heat, stacks: HeatStacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past its time and Heat's own the operation fails; the text says what Heat works on."""
    monkeypatch.setattr("vetro.stacks.heat.back_end.GRACE_SECONDS", 0.5)
    numbers = itertools.count()
    event = {"resource_name": "volume", "resource_status": "CREATE_IN_PROGRESS"}

    def events() -> Answer:
        time = f"2026-01-01T00:00:{next(numbers) % 60:02}Z"
        return 200, {"events": [{**event, "id": "1", "event_time": time}]}

    def create() -> Answer:
        heat.status = "CREATE_IN_PROGRESS"
        return 201, {"stack": {"id": "1"}}

    heat.answer(f"POST {STACKS}", create)
    heat.answer(f"GET {STACKS}/s/1/events", events)
    with pytest.raises(StackError, match="stack s in time.*CREATE_IN_PROGRESS.*create volume"):
        await stacks.create("p", "s", TEMPLATE, timeout=0.1)


async def test_stacks_are_made_with_the_users_own_token(heat: Heat, stacks: HeatStacks) -> None:
    """The creation alone has the user's token; one that is not valid any more is a failure that says so."""
    used: set[tuple[str, str]] = set()
    for call, usual in list(heat.stub.answers.items()):

        def note(headers: dict[str, str], given: Any, call: str = call, usual: Any = usual) -> Any:
            used.add((call.split()[0], headers.get("x-auth-token", "")))
            return usual(headers, given)

        heat.stub.answers[call] = note
    await stacks.create("p", "s", TEMPLATE)
    await stacks.update("p", "s", TEMPLATE)
    assert {token for method, token in used if method in ("GET", "PUT")} == {"service-token"}
    assert ("POST", "the-users") in used
    heat.status = ""
    heat.answer(f"POST {STACKS}", lambda: (401, {"error": {"message": "Authentication required"}}))
    with pytest.raises(StackError, match="token of who deploys.*Deploy again"):
        await stacks.create("p", "s", TEMPLATE)


async def test_a_token_that_ends_while_heat_works_with_it(heat: Heat, stacks: HeatStacks) -> None:
    """What Heat could not make with the user's token is made with the session's: one whole creation."""
    event = {"id": "2", "event_time": "2026-01-01T00:00:00Z", "resource_name": "a"}
    failed = {"resource_status": "CREATE_FAILED", "resource_status_reason": "a: 401-Unauthorized"}

    def create() -> Answer:
        heat.status = "CREATE_FAILED"
        heat.first(f"GET {STACKS}/s/1/events", (200, {"events": [event | failed]}))
        return 201, {"stack": {"id": "1"}}

    heat.answer(f"POST {STACKS}", create)
    made = await stacks.create("p", "s", TEMPLATE)
    assert (made.status, heat.asked(f"PUT {STACKS}/s/1")) == (StackStatus.CREATE_COMPLETE, 1)


async def test_a_keystone_that_is_away_is_waited_for(heat: Heat, stacks: HeatStacks) -> None:
    """A program signs in when Keystone answers again; until then what it waits for is named."""
    heat.first("POST /v3/auth/tokens", BROKEN, None, (503, None))
    said: list[str] = []
    made = await stacks.create("p", "s", TEMPLATE, progress=said.append)
    assert made.status is StackStatus.CREATE_COMPLETE
    assert "an answer of Keystone" in said[0]


async def test_networks_are_asked_for_again(heat: Heat, session: Session) -> None:
    """A Neutron that is away for a moment does not end what reads the networks of a project."""
    heat.answer("GET /network/v2.0/networks", lambda: (200, {"networks": [{"id": "n"}]}))
    heat.first("GET /network/v2.0/networks", BROKEN, None, PAGE)
    directory = NeutronDirectory(session, patience=Patience(3.0, first_pause=0.01))
    assert await directory.list_networks("p") == [{"id": "n"}]


async def test_copies_of_volumes_are_looked_for_at_cinder(heat: Heat) -> None:
    """One that can be used is there; others, what is no id, and nothing are not; a silence is waited out."""
    stub = heat.stub
    stub.keystone("volumev3")
    left = [BROKEN]
    answers: dict[str, Answer] = {
        "snapshots/good": (200, {"snapshot": {"id": "good", "status": "available"}}),
        "snapshots/early": (200, {"snapshot": {"id": "early", "status": "creating"}}),
        "backups/old": (200, {"backup": {"id": "old", "status": "available"}}),
        "backups/x%2Fy": (400, {"badRequest": {"message": "no uuid"}}),
    }

    def answering(answer: Answer) -> Any:
        def given(_headers: dict[str, str], _body: object) -> Answer:
            return left.pop() if left else answer

        return given

    for path, answer in answers.items():
        stub.answers[f"GET /volumev3/{path}"] = answering(answer)
    async with Session(stub.url, PasswordCredential("ann", "secret", "demo")) as session:
        cinder = CinderDirectory(session, patience=Patience(first_pause=0.01))
        assert await cinder.exists("p1", "snapshot", "good")
        assert await cinder.exists("p1", "backup", "old")
        for kind, id_ in (("snapshot", "early"), ("backup", "x/y"), ("snapshot", "gone")):
            assert not await cinder.exists("p1", kind, id_)
    assert stub.asked.count("GET /volumev3/snapshots/good") == 2


async def test_a_creation_that_a_removal_cancels_is_a_stack_that_was_deleted(
    heat: Heat, stacks: HeatStacks
) -> None:
    """Heat shows it as failed before it shows that it deletes it: the error says that it was deleted."""
    states = (
        shown("CREATE_IN_PROGRESS"),
        CANCELLED,
        CANCELLED,
        shown("DELETE_IN_PROGRESS"),
        (404, None),
    )
    heat.first(f"GET {STACKS}/s/1", *states)
    with pytest.raises(StackError, match="The stack s was deleted at Heat by somebody else"):
        await stacks.create("p", "s", TEMPLATE)


async def test_a_removal_that_cancels_a_creation_succeeds(heat: Heat, stacks: HeatStacks) -> None:
    """That the creation has failed is not the end of the removal."""
    heat.status = "CREATE_IN_PROGRESS"
    heat.first(f"GET {STACKS}/s/1", CANCELLED, CANCELLED, shown("DELETE_IN_PROGRESS"))
    assert await stacks.delete("p", "s") is None


async def test_a_cancelled_operation_that_nothing_follows_has_failed(
    heat: Heat, session: Session
) -> None:
    """As after `openstack stack cancel` without a rollback: the failure has Heat's reason."""
    settings = HeatSettings(first_pause=0.01, successor_seconds=0.05)
    heat.answer(f"GET {STACKS}/s/1", lambda: CANCELLED)
    made = await HeatStacks(session, settings, token="the-users").create("p", "s", TEMPLATE)
    assert made.status is StackStatus.CREATE_FAILED
    assert made.failure is not None
    assert "Stack CREATE cancelled" in str(made.failure)
