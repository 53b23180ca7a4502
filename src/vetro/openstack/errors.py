"""The exception tree of `vetro.openstack`.

::

    OpenStackError
    ├── ServiceAway         no answer, or one that says "not now" (429, 500 and more); also a ConnectionError
    ├── LoginRefused        Keystone does not take the credential
    ├── NotInCatalog        the cloud has no such service in that region
    └── RequestRefused      a service has refused a request (400 to 499)
"""

from __future__ import annotations


class OpenStackError(Exception):
    """Base of everything this room raises on purpose."""


class ServiceAway(OpenStackError, ConnectionError):
    """A service gives no answer that can be used; asking later may help."""

    def __init__(self, service: str, url: str, why: str) -> None:
        super().__init__(
            f"{service} at {url} does not answer: {why}. Check that it runs and can be reached from"
            " here; the request can be repeated then"
        )
        self.service = service


class LoginRefused(OpenStackError):
    """Keystone does not take a credential."""


class NotInCatalog(OpenStackError):
    """The service catalog has no endpoint for a service."""


class RequestRefused(OpenStackError):
    """A service has refused a request; ``status`` is HTTP's, the text the service's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
