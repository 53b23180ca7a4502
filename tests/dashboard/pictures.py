"""`make pictures`: takes the pictures of the dashboard that docs/dashboard.md and the README show.

    python -m tests.dashboard.pictures [NAME…]

A service of its own with the sample packages and simulated machines is started, and ended. What a
picture shows is in `PICTURES`: a path of the dashboard's router and the service's objects that stand for
its parameters. Times are fixed and nothing moves, so that a picture of the same page is the same on another
day: `test_pictures.py` compares.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser
from tests.browser import QUIET, chromium, settled
from tests.waiting import until

from .conftest import ROOT, Service

DIRECTORY = ROOT / "docs/pictures"
SIZE = (1200, 760)
QUALITY = 82
"""Of WebP: at less, small letters get a halo."""
STILL = """
*, *::before, *::after {
  animation: none !important; transition: none !important; caret-color: transparent !important;
}
"""
TIMES = """
(() => {
  const write = () => {
    for (const one of document.querySelectorAll('time')) {
      const isClock = /^\\d\\d:\\d\\d/.test(one.textContent);
      const text = one.dateTime.startsWith('P') ? '1 min 12 s' : isClock ? '09:41:00' : '2 minutes ago';
      if (one.textContent !== text) one.textContent = text;
    }
  };
  write();
  new MutationObserver(write).observe(document.body, { subtree: true, childList: true, characterData: true });
})()
"""
"""Moments and durations, also when the page writes them again before the picture is taken."""
LOADED = """
() => Promise.all([document.fonts.ready, ...[...document.images].filter((one) => {
  const { top, bottom } = one.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}).map((one) => one.decode().catch(() => undefined))])
"""
"""Letters, and the logos in sight."""
SETTLED = """
async () => {
  const places = () => [...document.body.querySelectorAll('*')].map((one) => {
    const { x, y, width, height } = one.getBoundingClientRect();
    return [x, y, width, height].map(Math.round).join();
  }).join(' ');
  const later = () => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(done))));
  let before;
  let now = '';
  do {
    before = now;
    await later();
    now = places();
  } while (now !== before);
}
"""
"""Everything stays where it is: a list places its rows in a later frame, by their heights."""


@dataclass(frozen=True)
class Picture:
    """A page. ``route``: its path in the router; ``search``: after it; ``wide``: not of a phone."""

    route: str
    search: str = ""
    theme: str = "light"
    wide: bool = True
    of: str = "shop"
    """The environment."""


PICTURES = {
    "environments": Picture("/environments"),
    "environment": Picture("/environments/$environmentId"),
    "catalog": Picture("/catalog"),
    "package": Picture("/catalog/$packageId"),
    "form": Picture("/environments/$environmentId/add/$packageId"),
    "topology": Picture("/environments/$environmentId/topology", theme="dark"),
    "log": Picture("/environments/$environmentId/deployments/$deploymentId", of="wiki"),
    "packages": Picture("/packages"),
    "machines": Picture("/machines", "?tab=images", theme="dark"),
    "phone": Picture("/catalog", theme="dark", wide=False),
}


def add(service: Service, environment: str, package: str, name: str, **more: Any) -> str:
    """Add an application by its form, as a person does; the component's id."""
    found = service.api("GET", f"/v1/catalog/packages?fqn={package}")["packages"][0]["id"]
    at = f"/v1/environments/{environment}"
    sessions = service.api("GET", f"{at}/sessions")["sessions"]
    session = (sessions or [service.api("POST", f"{at}/configure")])[0]["id"]
    body = {"package": found, "environment_id": environment, "session_id": session, "quick": True}
    wizard = service.api("POST", "/v1/wizards", body)
    inside = f"/v1/wizards/{wizard['id']}"
    for page in wizard["form"]["pages"]:
        known = {one["name"] for one in page["fields"]} | {"password-clone"}
        values = {**more, "application_name": name}
        given = {key: value for key, value in values.items() if key in known}
        service.api("POST", f"{inside}/pages/{page['name']}", {"values": given})
    target = {"environment_id": environment, "session_id": session}
    return str(service.api("POST", f"{inside}/finish", target)["component"]["?"]["id"])


def furnish(service: Service, directory: Path) -> dict[str, Mapping[str, str]]:
    """What the pictures show: the parameters of their paths, by environment."""
    for name in ("Web", "Databases"):
        service.run("category", "create", name)
    for name, category in (("ApacheHttpServer", "Web"), ("WebTier", "Web"), ("WordPress", "Web"),
                           ("MariaDb", "Databases"), ("PostgreSql", "Databases"),
                           ("PostgreSqlCluster", "Databases"), ("HelloScript", "Web")):  # fmt: skip
        archive = ROOT / f"dist/packages/org.vetro.samples.{name}.zip"
        service.run("package", "import", "--public", "--category", category, str(archive))
    (directory / "empty.tar").write_bytes(b"\0" * 10240)
    for image in ("debian-12-apache", "debian-12-postgresql", "debian-12"):
        service.run("image", "import", image, str(directory / "empty.tar"))
    made: dict[str, str] = {}
    for name in ("shop", "wiki", "staging", "training"):
        made[name] = str(service.api("POST", "/v1/environments", {"name": name})["id"])
    apache, database = "org.vetro.samples.ApacheHttpServer", "org.vetro.samples.PostgreSql"
    add(service, made["shop"], apache, "front", hostname="front-1")
    secret = {"password": "a long enough word", "password-clone": "a long enough word"}
    add(service, made["shop"], database, "orders", **secret)
    add(service, made["wiki"], apache, "wiki", hostname="wiki-1")
    add(service, made["staging"], apache, "front", hostname="front-1")
    at = f"/v1/environments/{made['wiki']}"
    (session,) = service.api("GET", f"{at}/sessions")["sessions"]
    service.api("POST", f"{at}/sessions/{session['id']}/deploy")

    def deployed() -> dict[str, Any]:
        (found,) = service.api("GET", f"{at}/deployments", X_Vetro_Fields="all")["deployments"]
        return dict(found)

    # Lists show what a deployment said last: this is all until a guest answers, which none does here.
    until(lambda: deployed()["waiting_on"], "the deployment waits for its guest")
    deployment = deployed()
    packages = service.api("GET", f"/v1/catalog/packages?fqn={database}")["packages"]
    return {
        name: {
            "environmentId": id_,
            "packageId": packages[0]["id"],
            "deploymentId": deployment["id"],
        }
        for name, id_ in made.items()
    }


def take(
    browser: Browser,
    service: Service,
    picture: Picture,
    parts: Mapping[str, str],
    spoil: str = "",
) -> bytes:
    """One picture, as WebP. ``spoil`` is a style sheet that breaks the page, for tests."""
    width, height = SIZE if picture.wide else (390, SIZE[1])
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.theme == "dark" else "light",
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
        bypass_csp=True,  # of the style sheets below
    )
    context.add_init_script(QUIET)
    page = context.new_page()
    page.goto(service.link())
    page.wait_for_url("**/dashboard/environments")
    path = picture.route
    for name, value in parts.items():
        path = path.replace(f"${name}", value)
    page.goto(f"{service.url}/dashboard{path}{picture.search}")
    page.locator("h1").first.wait_for()
    if "$deploymentId" in picture.route:
        # Its stream goes on; this is the last that is said until a guest answers, which none does here.
        page.get_by_text("It waits for").first.wait_for()
        page.get_by_role("log").get_by_text("Installing").wait_for()
    else:
        settled(page)
    page.add_style_tag(content=STILL + spoil)
    page.evaluate(LOADED)
    page.evaluate(TIMES)
    page.evaluate(SETTLED)
    session: Any = context.new_cdp_session(page)
    taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    context.close()
    return base64.b64decode(taken["data"])


@contextmanager
def furnished() -> Generator[tuple[Service, dict[str, Mapping[str, str]]]]:
    """A service of its own with what the pictures show, and the parameters of their paths."""
    with tempfile.TemporaryDirectory() as made:
        service = Service(Path(made))
        service.start()
        try:
            yield service, furnish(service, Path(made))
        finally:
            service.stop()


def main(wanted: list[str]) -> int:
    """Take the pictures named, or all."""
    unknown = [name for name in wanted if name not in PICTURES]
    if unknown:
        print(f"There is no picture {unknown[0]}; pictures: {', '.join(PICTURES)}")
        return 2
    DIRECTORY.mkdir(exist_ok=True)
    with furnished() as (service, parts), chromium() as browser:
        for name, picture in PICTURES.items():
            if wanted and name not in wanted:
                continue
            content = take(browser, service, picture, parts[picture.of])
            (DIRECTORY / f"{name}.webp").write_bytes(content)
            print(f"docs/pictures/{name}.webp {len(content) / 1000:.0f} kB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
