"""A user of an installation who speaks HTTP: a command takes seconds to start on a busy machine."""

import uuid
from dataclasses import dataclass
from typing import Any

from tests.server.conftest import Installation
from tests.waiting import until


@dataclass
class User:
    """Somebody with a token of Keystone's."""

    vetro: Installation
    token: str

    def call(self, method: str, path: str, body: Any = None, session: str = "") -> Any:
        """What the catalog API answers below ``/v1/environments``."""
        headers = {"X-Vetro-Fields": "all"}
        if session:
            headers["X-Configuration-Session"] = session
        status, answer = self.vetro.http(
            method, f"/v1/environments{path}", body, token=self.token, **headers
        )
        assert status < 300, (status, answer)
        return answer

    def environment(self, name: str, application: dict[str, Any], **more: Any) -> str:
        """Make an environment of one application, and begin to deploy it: its id."""
        id_ = str(self.call("POST", "", {"name": name, **more})["id"])
        session = self.call("POST", f"/{id_}/configure")["id"]
        self.call("POST", f"/{id_}/services", application, session)
        self.call("POST", f"/{id_}/sessions/{session}/deploy")
        return id_

    def deploy(self, id_: str, **properties: Any) -> None:
        """Begin to deploy again, with other properties of the application."""
        session = self.call("POST", f"/{id_}/configure")["id"]
        (application,) = self.call("GET", f"/{id_}/services", session=session)
        if properties:
            self.call("PUT", f"/{id_}/services", [{**application, **properties}], session)
        self.call("POST", f"/{id_}/sessions/{session}/deploy")

    def newest(self, id_: str) -> dict[str, Any]:
        """The newest deployment."""
        return dict(self.call("GET", f"/{id_}/deployments")["deployments"][0])

    def ended(self, id_: str) -> str:
        """Wait for the newest deployment: its state and the texts of its reports."""
        until(lambda: self.newest(id_)["finished"], "the deployment has ended")
        newest = self.newest(id_)
        rows = self.call("GET", f"/{id_}/deployments/{newest['id']}")["reports"]
        return "\n".join([newest["state"], *(row["text"] for row in rows)])

    def destroy(self, id_: str) -> None:
        """Remove an environment and what was made for it."""
        self.call("DELETE", f"/{id_}")

        def gone() -> bool:
            status, answer = self.vetro.http("GET", f"/v1/environments/{id_}", token=self.token)
            assert status in (200, 404), answer
            assert status == 404 or answer["status"] != "delete failure", answer
            return status == 404

        until(gone, "the environment is gone")


def application(kind: str, **properties: Any) -> dict[str, Any]:
    """An application of a class."""
    return {"?": {"type": kind, "id": uuid.uuid4().hex}, "name": "n", **properties}
