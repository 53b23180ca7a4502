"""The settings of the built-in identity service."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IdentitySection:
    """The built-in identity service."""

    admin_password: str = ""
    """The administrator's password, set at the first start; empty: one is made and written to
    `admin-openrc`.
    """
    token_hours: float = 12.0
    """Hours that a token is valid."""
