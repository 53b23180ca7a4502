"""Secrets that the identity service makes up."""

from vetro.identity.passwords import new_secret


def test_a_secret_is_no_option_of_a_command() -> None:
    """A token can be a word of its own after `--os-auth-token`: of a thousand none begins with a dash."""
    assert all(new_secret()[0].isalnum() for _ in range(1000))
