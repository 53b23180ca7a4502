"""How users come in: the first account, and what a starting service prints."""

from __future__ import annotations

import sys

from vetro.identity import Identity
from vetro.secrecy import without_credentials
from vetro.server import data_directory
from vetro.server.isolation import Instances
from vetro.server.settings import Settings


async def say_first_login(
    settings: Settings, known: Identity, url: str, instances: Instances
) -> None:
    """Make the first administrator of the built-in identity service, and print how to log in.

    ``instances``: how the local node makes them.
    """
    print(f"Vetro listens on {url}", flush=True)
    print(f"  dashboard {url}/dashboard/", flush=True)
    if known.keystone is not None:
        address = without_credentials(known.keystone.session.url)
        print(f"  log in    with OS_AUTH_URL={address} and your account there", flush=True)
    else:
        await _first_account(settings, known, url)
    if settings.node.enabled:
        print(f"  instances {instances.driver}: {instances.why}; {instances.holds}", flush=True)
    else:
        print("  instances on other machines (vetro node)", flush=True)


async def _first_account(settings: Settings, known: Identity, url: str) -> None:
    directory, shared = settings.data_dir, settings.shared_dir
    path = directory / "admin-openrc"
    credentials = await known.bootstrap_admin()
    if credentials is not None:
        for place in {shared: None, directory: None}:
            data_directory.write_openrc(
                place / "admin-openrc",
                url=url,
                user=credentials.user,
                password=credentials.password,
                project=credentials.project,
            )
        print(f"  user      {credentials.user}", flush=True)
        if sys.stdout.isatty():
            print(f"  password  {credentials.password}   (shown this once)", flush=True)
        else:
            # Output may go to a journal or a file that others can read.
            print(f"  password  in {path}", flush=True)
        print(f"  log in    source {path}", flush=True)
    elif data_directory.keep_openrc(path, url, like=shared / "admin-openrc"):
        print(f"  log in    source {path}", flush=True)
    else:
        print(f"  log in    with OS_AUTH_URL={url}/identity/v3 and your account", flush=True)
