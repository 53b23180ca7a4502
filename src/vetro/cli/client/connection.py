"""The client's way to a running Vetro: where it is, who we are, and its errors as one line.

Credentials, first found: ``VETRO_TOKEN`` (or ``OS_TOKEN``); a password or an application credential
in the ``OS_…`` variables that every OpenStack client takes; the file ``admin-openrc`` in the data
directory of a Vetro on this machine. Where Vetro is, first found: ``--url``, ``VETRO_URL``, the service
catalog of ``OS_AUTH_URL``.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast
from urllib.parse import quote

from vetro.cli.client.answers import Environment
from vetro.cli.client.hints import error_text, hint_for, not_of_vetro
from vetro.cli.client.trust import CACERT, trust
from vetro.cli.terminal.output import Row, fail, meta, remark
from vetro.http.client import RequestOptions, SyncClient, SyncResponse, TransportError

if TYPE_CHECKING:
    from vetro.compute.client import Call

Answer = TypeVar("Answer")
_OTHER_VERSION = "Is it of another version than this command?"
DEFAULT_URL = "http://127.0.0.1:8082"
TIMEOUT_SECONDS = 60.0
_SECRETS = ("OS_PASSWORD", "OS_APPLICATION_CREDENTIAL_SECRET", "VETRO_TOKEN", "OS_TOKEN")


def read_openrc(path: Path) -> dict[str, str]:
    """The variables that an ``openrc`` file exports."""
    values: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        words = shlex.split(line, comments=True)
        for word in words[1:] if words[:1] == ["export"] else words:
            name, equals, value = word.partition("=")
            if equals:
                values[name] = value
    return values


def data_directory() -> Path:
    """The data directory that the command was given, or the default one."""
    if given := meta("data_dir"):
        return Path(given)
    from vetro.server.settings import default_data_dir

    return Path(os.environ.get("VETRO_DATA_DIR") or default_data_dir())


def credentials() -> dict[str, str]:
    """``OS_…`` and ``VETRO_…`` variables: the environment's, else those of ``admin-openrc``."""
    found = {k: v for k, v in os.environ.items() if v and k.startswith(("OS_", "VETRO_"))}
    is_known = not found.keys().isdisjoint(_SECRETS)
    path = data_directory() / "admin-openrc"
    try:
        local = read_openrc(path)
        # Whatever the account: the file says where this machine's service is.
        address = {key: local[key] for key in ("VETRO_URL",) if key in local}
        return {**(address if is_known else local), **found}
    except FileNotFoundError:
        return found
    except PermissionError:
        if is_known:
            return found
        fail(
            f"{path} cannot be read with your account",
            "Ask for an account, or set OS_USERNAME, OS_PASSWORD and OS_AUTH_URL.",
        )


@dataclass(frozen=True)
class Decoded(Generic[Answer]):
    """What was answered: the struct that a command decides by, and all that was sent, to print it."""

    known: Answer
    row: Row


class StreamBroke(Exception):
    """The service stopped, or the way to it: a stream of events ended before its time."""


class WaitedEnough(Exception):
    """The time to wait for a stream of events is over; the work that it reports continues."""


class Connection:
    """Requests to one Vetro with the user's token."""

    def __init__(self) -> None:
        self.variables = credentials()
        self._debug = bool(meta("debug"))
        self._url = str(meta("url") or self.variables.get("VETRO_URL") or "").rstrip("/")
        self._catalog: list[dict[str, Any]] | None = None
        chosen = {CACERT: meta("cacert")} if meta("cacert") else {}
        self.client = SyncClient(
            timeout_seconds=meta("api_timeout") or TIMEOUT_SECONDS,
            tls=trust({**self.variables, **chosen}, insecure=bool(meta("insecure"))),
        )
        self._token = self.variables.get("VETRO_TOKEN") or self.variables.get("OS_TOKEN")
        self._project: str | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.client.close()

    @property
    def url(self) -> str:
        """Where Vetro answers."""
        if not self._url:
            self._url = self._in_catalog() or DEFAULT_URL
        return self._url

    def _in_catalog(self) -> str:
        """Where the service catalog of ``OS_AUTH_URL`` has Vetro; empty: nowhere."""
        if "OS_AUTH_URL" not in self.variables:
            return ""
        token = self.token
        if self._catalog is None:
            self._catalog = self.identity("/auth/catalog", headers={"X-Auth-Token": token})[
                "catalog"
            ]
        interface = self.variables.get("OS_INTERFACE", "public").removesuffix("URL")
        region = self.variables.get("OS_REGION_NAME")
        for service in self._catalog or ():
            for one in service["endpoints"] if service["type"] == "application-catalog" else ():
                if one["interface"] == interface and region in (None, one["region_id"]):
                    return str(one["url"]).rstrip("/")
        return ""

    @property
    def token(self) -> str:
        """A token, by password when none was given."""
        if self._token is None:
            self._token = self._log_in()
        return self._token

    @property
    def identity_url(self) -> str:
        """Where to log in."""
        given = self.variables.get("OS_AUTH_URL", "").rstrip("/")
        if not given:
            return f"{self.url}/identity/v3"
        return given if given.endswith("/v3") else f"{given}/v3"

    @property
    def project_id(self) -> str:
        """The project that the token is for."""
        if self._project is None:
            token = self.token
            if self._project is None:
                body = self.identity("/auth/tokens", headers={"X-Subject-Token": token})
                self._project = _project_in(body)
        return self._project

    def identity(self, path: str, *, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON body of a GET of the identity service."""
        return self.ask_identity("GET", path, headers=headers).json()

    def try_identity(self, path: str) -> object:
        """The JSON body of a GET of the identity service; ``None`` when it refuses."""
        headers = {"X-Auth-Token": self.token}
        response = self._send("GET", self.identity_url + path, headers=headers)
        return response.json() if response.status < 400 else None

    def ask_identity(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, object] | None = None,
        hint: str | None = None,
    ) -> SyncResponse:
        """Send a request to the identity service; a refusal ends the command with its message."""
        response = self._send(
            method,
            self.identity_url + path,
            headers={"X-Auth-Token": self.token, **(headers or {})},
            params=params,
        )
        return accepted(response, hint)

    def _log_in(self) -> str:
        known = self.variables
        id_, secret = (known.get(f"OS_APPLICATION_CREDENTIAL_{one}") for one in ("ID", "SECRET"))
        user, password = known.get("OS_USERNAME"), known.get("OS_PASSWORD")
        if id_ and secret:
            who = f"the application credential {id_}"
            given = {"id": id_, "secret": secret}
            methods: dict[str, object] = {"application_credential": given}
        elif user and password:
            who = user
            own = {"name": user, "domain": self._domain("USER"), "password": password}
            methods = {"password": {"user": own}}
        else:
            fail(
                "No credentials",
                "Start 'vetro up' on this machine, or set OS_USERNAME, OS_PASSWORD, OS_AUTH_URL"
                " (an openrc file), or VETRO_TOKEN.",
            )
        auth: dict[str, object] = {"identity": {"methods": list(methods), **methods}}
        if not id_:
            project = {"id": known["OS_PROJECT_ID"]} if known.get("OS_PROJECT_ID") else {
                "name": known.get("OS_PROJECT_NAME", "admin"), "domain": self._domain("PROJECT")
            }  # fmt: skip
            auth["scope"] = {"project": project}
        url = f"{self.identity_url}/auth/tokens"
        response = self._send("POST", url, json={"auth": auth}, headers={})
        if response.status != 201:
            stranger = (
                f"{self.identity_url} is no identity service: see OS_AUTH_URL, --url, VETRO_URL."
            )
            hint = stranger if response.status < 400 else None
            fail(f"Login of {who} refused: {error_text(response)}", hint)
        self._project = _project_in(response.json())
        self._catalog = response.json()["token"].get("catalog")
        return response.headers["x-subject-token"]

    def _domain(self, whose: str) -> dict[str, str]:
        """The domain of the user or of the project."""
        id_ = self.variables.get(f"OS_{whose}_DOMAIN_ID")
        return {"id": id_} if id_ else {
            "name": self.variables.get(f"OS_{whose}_DOMAIN_NAME", "Default")
        }  # fmt: skip

    def _send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        **options: Unpack[RequestOptions],
    ) -> SyncResponse:
        began = time.monotonic()
        try:
            answer = self.client.request(method, url, headers=dict(headers), **options)
        except TransportError as error:
            self._log(method, url, began, str(error))
            fail(*self._unanswered(url, error))
        request_id = answer.headers.get("x-openstack-request-id", "")
        self._log(method, url, began, f"{answer.status} {request_id}".rstrip())
        if stranger := not_of_vetro(answer, self._asked(url)):
            fail(*stranger)
        return answer

    def _asked(self, url: str) -> str:
        """The address, as it was configured, that a request went to."""
        identity = self.variables.get("OS_AUTH_URL", "").rstrip("/")
        own = self._url or DEFAULT_URL
        is_login = (
            bool(identity) and url.startswith(f"{identity}/") and not url.startswith(f"{own}/")
        )
        return identity if is_login else own

    def _log(self, method: str, url: str, began: float, said: str) -> None:
        """With ``--debug``: a line for each request, without bodies and without the token."""
        if self._debug:
            milliseconds = (time.monotonic() - began) * 1000
            remark(f"{method} {url}: {said} ({milliseconds:.0f} ms)")

    def _unanswered(self, url: str, error: TransportError) -> tuple[str, str]:
        """What refused, by its own address, and where that address is from."""
        # Where Vetro is may be what was asked for just now.
        own = self._url or DEFAULT_URL
        identity = self._asked(url)
        if identity != own:
            given = "OS_AUTH_URL" in os.environ
            where = "the environment" if given else str(data_directory() / "admin-openrc")
            return (
                f"No Vetro answers at {identity}, where to log in: {error}",
                f"The address is OS_AUTH_URL of {where}, the service's own is {own}:"
                " correct OS_AUTH_URL, or 'unset' it to use the service's.",
            )
        if error.is_untrusted:
            return (
                f"No Vetro answers at {own}: {error}",
                "--cacert FILE (OS_CACERT) names the authority that signed it; --insecure believes anybody.",
            )
        if not own.startswith(("http://", "https://")):
            return (
                f"{own} is no address of a Vetro: {error}",
                f"Name it with --url or VETRO_URL, such as {DEFAULT_URL}.",
            )
        if "does not speak TLS" in str(error):
            return (
                f"No Vetro answers at {own}: {error}",
                f"Name it with --url or VETRO_URL as http://{own.partition('://')[2]}.",
            )
        if "no address is known" in str(error):
            return (
                f"No Vetro answers at {own}: {error}",
                "Correct the name in --url or VETRO_URL, or give an address instead of a name.",
            )
        if "in time" in str(error):
            return (
                f"No Vetro answers at {own}: {error}",
                "--api-timeout SECONDS waits longer; its log says what keeps it busy.",
            )
        return (
            f"No Vetro answers at {own}: {error}",
            "Start it with 'vetro up', or name it with --url or VETRO_URL.",
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        hint: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> SyncResponse:
        """Send a request; a status of 400 and more ends the command, as of `accepted`."""
        return accepted(self.answer(method, path, headers=headers, **options), hint)

    def answer(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> SyncResponse:
        """Send a request; whatever is answered."""
        own = {"X-Auth-Token": self.token, "X-Vetro-Fields": "all", **(headers or {})}
        if given := os.environ.get("TRACEPARENT"):
            # The caller of the command, such as a pipeline, is traced.
            own["traceparent"] = given
        return self._send(method, self.url + path, headers=own, **options)

    def send(self, call: Call[Answer], *, hint: str | None = None) -> Answer:
        """The answer to a call of the compute service; a refusal ends the command, as of `request`."""
        return read(call, self._accepted(call, hint))

    def look_up(self, call: Call[Answer]) -> Answer | None:
        """The answer to a call of the compute service; ``None`` for 404."""
        response = self.answer_to(call)
        return None if response.status == 404 else read(call, accepted(response))

    def decoded(self, call: Call[Answer]) -> Decoded[Answer]:
        """The answer to a call of the compute service, with all that was sent."""
        response = self._accepted(call)
        return Decoded(read(call, response), read(call.answered_as(Row), response))

    def all_decoded(self, call: Call[list[Answer]]) -> list[Decoded[Answer]]:
        """As `decoded`, for a call whose answer is a list."""
        response = self._accepted(call)
        rows = read(call.answered_as(list[Row]), response)
        return [Decoded(*one) for one in zip(read(call, response), rows, strict=True)]

    def _accepted(self, call: Call[Answer], hint: str | None = None) -> SyncResponse:
        return accepted(self.answer_to(call), hint)

    def answer_to(self, call: Call[Any]) -> SyncResponse:
        """Send a call of the compute service; whatever is answered."""
        return self.answer(
            call.method,
            f"/compute{call.path}",
            content=call.content,
            params=call.params or None,
            headers={"Content-Type": "application/json"} if call.body is not None else None,
        )

    def get(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """The JSON body of a GET."""
        return self.request("GET", path, headers=headers, **options).json()

    def events(self, path: str, until: float | None = None) -> Iterator[tuple[str, Any]]:
        """Server-sent events of ``path`` as (event name, data) until the server ends them.

        ``until``: the moment of `time.monotonic` at which to stop; a server that says nothing at all
        is noticed up to a heartbeat (15 seconds) later. Errors: ``WaitedEnough`` then, ``StreamBroke``
        when the service cannot be reached (any more), ``Fault`` for a refusal.
        """
        silence = None if until is None else max(0.01, until - time.monotonic())
        name = "message"
        data: list[str] = []
        try:
            lines = self.client.stream_lines(
                "GET",
                self.url + path,
                headers={"X-Auth-Token": self.token, "Accept": "text/event-stream"},
                silence_seconds=silence,
            )
            for line in lines:
                if until is not None and time.monotonic() >= until:
                    raise WaitedEnough
                if line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    data.append(line[5:].strip())
                elif not line and data:
                    yield name, json.loads("\n".join(data))
                    name, data = "message", []
        except TransportError as error:
            if until is not None and time.monotonic() >= until:
                raise WaitedEnough from error
            raise StreamBroke(str(error)) from error


def _project_in(body: dict[str, Any]) -> str:
    """The project of a token's body; '' for a token that has none."""
    project: dict[str, object] = body["token"].get("project") or {}
    return str(project.get("id") or "")


def accepted(response: SyncResponse, hint: str | None = None) -> SyncResponse:
    """A successful response; a refusal ends the command with the server's message.

    ``hint``: what the user can do then, when the status alone does not say it.
    """
    if response.status >= 400:
        fail(error_text(response), hint or hint_for(response))
    return response


def read(call: Call[Answer], response: SyncResponse) -> Answer:
    """The answer in a response; the command ends when it is of another form."""
    try:
        return call.read(response.content)
    except ValueError as error:
        fail(
            f"The service's answer to {call.method} {call.path} has an unexpected form: {error}",
            _OTHER_VERSION,
        )


def known_as(row: Row, type_: type[Answer]) -> Answer:
    """A part of an answer as a struct; the command ends when it is of another form."""
    import msgspec

    try:
        return msgspec.convert(row, type_)
    except msgspec.ValidationError as error:
        fail(
            f"The service describes a {type_.__name__} in an unexpected form: {error}",
            _OTHER_VERSION,
        )


def segment(text: str) -> str:
    """One path segment, percent-encoded."""
    return quote(text, safe="")


def find_environment(connection: Connection, name_or_id: str) -> Environment:
    """The environment with this id or (exact) name."""
    rows = cast("list[Environment]", connection.get("/v1/environments")["environments"])
    for key in ("id", "name"):
        for row in rows:
            if row[key] == name_or_id:
                return row
    names = ", ".join(sorted(str(row["name"]) for row in rows)) or "none"
    fail(f"There is no environment '{name_or_id}'", f"Environments of this project: {names}.")
