"""Python's collector is off while a class is compiled, and as it was afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from vetro.muranopl.values.collector_pause import collector_paused


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave the collector as other tests expect it."""
    yield
    gc.enable()


def test_it_is_off_within_and_on_again_only_after_the_outermost() -> None:
    """A nested pause does not turn the collector on."""
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_turns_it_on_again() -> None:
    """A class that does not compile leaves the collector on."""
    with pytest.raises(ValueError, match="broken"), collector_paused():
        raise ValueError("broken")
    assert gc.isenabled()


def test_a_collector_that_the_host_turned_off_stays_off() -> None:
    """A process that does without the collector goes on doing so."""
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()
