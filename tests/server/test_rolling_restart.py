"""Every process of an installation is restarted, killed and cut off from its database, under load."""

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.replicated import Replicated
from tests.server.site import FIRST, SECOND, Load, Site, running_site
from tests.waiting import until

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.e2e,
    pytest.mark.postgres,
]


@pytest.fixture
def database() -> Iterator[Replicated]:
    """A primary and its standby."""
    if not os.environ.get("VETRO_TEST_POSTGRES_URL"):
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set; tools/with-postgres.sh sets it")
    made = Replicated()
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path, database: Replicated) -> Iterator[Site]:
    """The processes, all at work, with a package."""
    with running_site(tmp_path, database.url, database.broker_url) as made:
        yield made


def test_restarts_are_not_noticed_and_crashes_are_survived(
    site: Site, database: Replicated
) -> None:
    """A restart of every process fails no request, deployment or heartbeat. Killed ones break the requests
    and deployments that they had, which end well when they are repeated; so does a primary of the database
    that dies.
    """
    load = Load(site)
    try:
        for names in (FIRST, (*SECOND, "node")):
            site.restart(*names)
            load.goes_on()
    finally:
        load.end()
    assert load.failures == []
    assert set(load.deployed) == {"ready"}
    assert "heartbeat_not_delivered" not in site.log("node")
    assert site.states() == ["running"]

    site.patient = True
    load = Load(site)
    try:
        for names in (FIRST, (*SECOND, "node")):
            load.goes_on()
            for name in names:
                assert site.stop(name, signal.SIGKILL) == -signal.SIGKILL
            load.goes_on()  # with those that are left
            site.begin(*names)
        load.goes_on()
    finally:
        load.end()
    assert load.failures == []
    assert set(load.deployed) == {"ready"}
    site.patient = False

    kept = site.submit()
    database.kill_primary()
    until(lambda: not site.doors["api"].ready, "the services say that their database is away")
    with pytest.raises(urllib.error.HTTPError) as caught:
        address = f"http://127.0.0.1:{site.ports['api']}/v1/environments"
        asked = urllib.request.Request(address, headers={"X-Auth-Token": site.token})
        urllib.request.urlopen(asked, timeout=240)
    assert caught.value.code == 503
    database.promote_standby()
    until(site.is_known, "the services have their database again")
    assert site.outcome(kept) in ("ready", "deploy failure")
    assert site.outcome(site.submit()) == "ready"
    until(lambda: site.states() == ["running"], "the node reports again")
    site.read_all()
    assert all(one.poll() is None for one in site.processes.values())
