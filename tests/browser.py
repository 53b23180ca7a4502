"""Somebody at the distribution's Chromium, for tests that look at the dashboard as people do."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from tests.one_browser import BROWSER, CHROMIUM
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]
AXE = ROOT / "dashboard/node_modules/axe-core/axe.min.js"
# Streams of events never end, so the browser's own "networkidle" never comes. A page is looked at when it has
# nothing else to do, twice: on a busy machine what has arrived asks for more a good while later.
QUIET = """
(() => {
  let asked = 0;
  let since = performance.now();
  const was = window.fetch;
  window.fetch = (...given) => {
    asked += 1;
    return was(...given).finally(() => { asked -= 1; since = performance.now(); });
  };
  new PerformanceObserver(() => { since = performance.now(); }).observe({ type: 'resource' });
  const idle = () => new Promise((done) => { requestIdleCallback(() => done()); });
  const isQuiet = () => asked === 0 && performance.now() - since > 400;
  window.is_quiet = async () => {
    await idle();
    if (!isQuiet()) return false;
    await idle();
    return isQuiet();
  };
})();
"""
# What axe finds, and whether the document changed while axe looked or within a second of a finding: an
# element that is removed fades first, by timers of at most 300 ms.
LOOK = """
async (source) => {
  document.getAnimations()
    .filter((one) => Number.isFinite(one.effect?.getComputedTiming().endTime))
    .forEach((one) => one.finish());
  if (!window.axe) (0, eval)(source);
  let changed = () => {};
  const change = new Promise((answer) => { changed = () => answer(true); });
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { subtree: true, childList: true, attributes: true });
  const { violations } = await window.axe.run({ resultTypes: ['violations'] });
  const enough = new Promise((answer) => setTimeout(() => requestAnimationFrame(() => answer(false)), 1000));
  const found = violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target} ${failureSummary}`));
  const again = found.length > 0 && await Promise.race([change, enough]);
  observer.disconnect();
  return [found, again];
}
"""
PATIENCE = PATIENCE_SECONDS * 1000  # a busy machine is no reason to fail
expect.set_options(timeout=PATIENCE)


def settled(page: Page) -> None:
    """Wait until a page that runs ``QUIET`` has what it asked for."""
    until(lambda: page.evaluate("window.is_quiet()"), "the page has what it asked for")


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser of the run, without a window, and nobody in it.

    The driver that talks to it runs an event loop in this thread until the end.
    """
    if not CHROMIUM:
        pytest.skip("chromium is not installed: tools/system-packages.sh test")
    with sync_playwright() as driver:
        browser = driver.chromium.connect(BROWSER.address)
        yield browser
        browser.close()


class Person:
    """Somebody at a browser: a page, and what it complained about."""

    def __init__(self, page: Page, service: Any) -> None:
        """``service`` has a ``url``, and ``link()`` that signs a browser in once."""
        self.page = page
        self.service = service
        self.complaints: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.set_default_timeout(PATIENCE)
        page.add_init_script(QUIET)

    def _said(self, message: ConsoleMessage) -> None:
        # The browser itself notes answers of 400 and more; pages ask for some of them on purpose.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def open(self, path: str) -> Page:
        """Go to a page of the dashboard, and wait until it has what it asked for."""
        self.page.goto(f"{self.service.url}/dashboard{path}")
        self.page.locator("h1").first.wait_for()
        settled(self.page)
        return self.page

    def sign_in(self) -> Page:
        """Sign in by a one-time link."""
        self.page.goto(self.service.link())
        self.page.wait_for_url("**/dashboard/environments")
        self.page.locator("h1").first.wait_for()
        return self.page

    def violations(self) -> list[str]:
        """What axe finds on the page: the rule, and where.

        A menu that fades after somebody chose from it is in the document for a moment, and nobody can use it:
        axe looks again while a page changes, up to ten times.
        """
        source = AXE.read_text(encoding="utf-8")
        found: list[str] = []
        for _ in range(10):
            found, again = self.page.evaluate(LOOK, source)
            if not again:
                break
        return found


@contextmanager
def somebody(service: Any) -> Generator[Person]:
    """A person who has signed in, in the browser of the run. No page may log an error."""
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
        person = Person(context.new_page(), service)
        person.sign_in()
        yield person
        context.close()
    assert person.complaints == []
