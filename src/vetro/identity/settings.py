"""The settings of identity: the built-in service, or a Keystone."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IdentitySection:
    """Who callers are: the built-in identity service, or the Keystone at `url`
    ([openstack.md](openstack.md)).
    """

    admin_password: str = ""
    """The administrator's password, set at the first start; empty: one is made and written to
    `admin-openrc`.
    """
    token_hours: float = 12.0
    """Hours that a token is valid."""
    url: str = ""
    """Address of a Keystone, `https://HOST:5000/v3`; empty: the built-in service. The settings above mean
    nothing with it, those below nothing without.
    """
    service_user: str = "vetro"
    """Vetro's own user in Keystone, with the role `service` or `admin`: it validates tokens."""
    service_password: str = ""
    """Its password."""
    service_project: str = "service"
    """The project it signs in for."""
    service_domain: str = "Default"
    """Name of the domain of that user and that project."""
    service_credential: str = ""
    """Id of an application credential to use in place of user and password."""
    service_secret: str = ""
    """Its secret."""
    region: str = ""
    """The region of the service catalog that Vetro is registered in; empty: any."""
    interface: str = "public"
    """Which endpoints of the catalog Vetro uses: `public`, `internal` or `admin`."""
    admin_role: str = "admin"
    """The role of Keystone that makes a user an administrator of Vetro."""
    cache_seconds: float = 10.0
    """Seconds that Keystone's answer about a token is used again: so late may a revocation be noticed."""
    answer_seconds: float = 10.0
    """Seconds that Keystone gets for an answer; then callers get 503."""
