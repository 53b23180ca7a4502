"""The dashboard in the distribution's Chromium, at a real `vetro up` with 1,000 packages and environments.

The service, the browser (without a window and without a graphics processor, so that every pixel is drawn in
software) and what drives it share one core. Times are those of the reference machine (`limits.py`); each
round has a new profile, so nothing is in a cache.

- A paint is what the browser notes as `first-contentful-paint`.
- An interaction (a click or a key, sent as the mouse and the keyboard send them) lasts until the next paint:
  the browser's Event Timing, which counts in steps of 8 ms from 16 on. A round's figure is its slowest one.
- Frames are counted with `requestAnimationFrame` while a graph is moved or a list is scrolled: the main
  thread gets one whenever it and the drawing behind it are done with the one before. There are at most 60 a
  second, so a machine that is faster than the reference machine need not draw more.
"""

from __future__ import annotations

import io
import os
import sys
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from catalog_api import ROOT, Caller, Service, running, service_object, upload
from limits import Topic, repetitions
from playwright.sync_api import Browser, Page, StorageState, sync_playwright

CHROMIUM = "/usr/bin/chromium"
BUILT = ROOT / "src/vetro/_dashboard"
ROUNDS = int(os.environ.get("VETRO_BENCH_ROUNDS", "5"))
MANY = 1000
REPORTS = 10_000
MOVING_SECONDS = 3.0
FRAMES = 30.0

WATCH = """
window.interactions = {};
new PerformanceObserver((list) => {
  for (const { interactionId, duration, name, target } of list.getEntries()) {
    if (interactionId && duration > (window.interactions[interactionId]?.[0] ?? 0))
      window.interactions[interactionId] = [duration, `${name} ${target?.textContent || target?.name || ''}`];
  }
}).observe({ type: 'event', durationThreshold: 16, buffered: true });
// Streams of events never end, so the browser's own "networkidle" never comes.
let last = 0;
new PerformanceObserver(() => { last = performance.now(); }).observe({ type: 'resource' });
window.is_quiet = () => performance.now() - last > 700;
window.frames_of = () => {
  const times = [];
  let on = true;
  const next = (at) => { times.push(at); if (on) requestAnimationFrame(next); };
  requestAnimationFrame(next);
  return () => { on = false; return times; };
};
"""
# From a click to the frame after the tiles are in the page.
OPEN_CATALOG = """(count) => new Promise((done) => {
  const began = performance.now();
  const look = () => {
    if (document.querySelectorAll('main ul > li').length < count) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  };
  document.querySelector("nav a[href='/dashboard/catalog']").click();
  requestAnimationFrame(look);
})"""
PAINT = """new Promise((done) => new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (one.name === 'first-contentful-paint') done(one.startTime);
}).observe({ type: 'paint', buffered: true }))"""
SCRIPTS = """performance.getEntriesByType('resource')
  .map((one) => new URL(one.name).pathname).filter((one) => one.endsWith('.js'))"""
FIELDS = """
      - {{name: text{n}, type: string, label: text{n}, regexpValidator: '^[a-z ]*$', required: false}}
      - {{name: number{n}, type: integer, label: number{n}, initial: {n}, maxValue: 100000}}
      - {{name: choice{n}, type: choice, label: choice{n}, initial: one, choices: [[one, one], [two, two]]}}
      - {{name: switch{n}, type: boolean, label: switch{n}, required: false}}
"""
FORM = (
    "Version: 2.4\nApplication: {'?': {type: bench.Composed}}\nForms:\n"
    + "".join(f"- page{n}:\n    fields:{FIELDS.format(n=n)}" for n in range(2))
)  # fmt: skip
PROGRAM = f"""
Name: bench.Talker
Extends: io.murano.Application
Methods:
  deploy:
    Body:
      - For: number
        In: range({REPORTS})
        Do: $this.find('io.murano.Environment').reporter.report($this, 'line ' + str($number))
"""


class Bench:
    """The service, the browser, and the session of the administrator."""

    def __init__(self, service: Service, browser: Browser) -> None:
        self.service = service
        self.browser = browser
        self.url = f"http://127.0.0.1:{service.port}/dashboard"
        self.state: StorageState | None = None
        self.topic = Topic("dashboard")

    def sign_in(self, link: str) -> None:
        """Keep the session of a one-time link for the pages that follow."""
        with self.page("", signed_in=False) as page:
            page.goto(f"{self.url}/sign-in#{link.partition('#')[2]}")
            page.wait_for_url("**/environments")
            self.state = page.context.storage_state()

    @contextmanager
    def page(self, path: str, *, signed_in: bool = True) -> Generator[Page]:
        """A page in a new profile, when its heading is shown; ``path`` may be empty."""
        context = self.browser.new_context(
            viewport={"width": 1280, "height": 900},
            locale="en-GB",
            **({"storage_state": self.state} if signed_in and self.state else {}),
        )
        context.add_init_script(WATCH)
        page = context.new_page()
        page.set_default_timeout(60_000)
        if path:
            page.goto(f"{self.url}{path}")
            page.locator("h1").first.wait_for()
        yield page
        context.close()

    def most(self, what: str, limit: float, measure: Callable[[], float]) -> None:
        """Measure milliseconds some times; they may not be more than ``limit``."""
        figures = [measure() * factor for factor in repetitions(ROUNDS)]
        self.topic.take(what, figures, "ms", limit)

    def frames(self, what: str, page: Page, move: Callable[[int], None]) -> None:
        """Frames a second while ``move`` is called with 0, 1, … for some seconds, some times."""
        figures: list[float] = []
        for factor in repetitions(ROUNDS):
            page.evaluate("() => { window.stop_frames = window.frames_of(); }")
            until, number = time.monotonic() + MOVING_SECONDS, 0
            while time.monotonic() < until:
                move(number)
                number += 1
            times: list[float] = page.evaluate("() => window.stop_frames()")
            figures.append(1000 * (len(times) - 1) / (times[-1] - times[0]) / min(factor, 1))
        self.topic.take(what, figures, "frames/s", FRAMES, at_least=True)


def quiet(page: Page) -> None:
    """Wait until nothing more is loaded."""
    while not page.evaluate("window.is_quiet()"):
        time.sleep(0.05)


def first_paint(bench: Bench, path: str, *, signed_in: bool = True) -> Callable[[], float]:
    """Milliseconds until something of the page is seen."""

    def measure() -> float:
        with bench.page(path, signed_in=signed_in) as page:
            return float(page.evaluate(PAINT))

    return measure


def initial_script(bench: Bench) -> float:
    """Bytes of the JavaScript that the first page loads, as gzip."""
    with bench.page("/sign-in", signed_in=False) as page:
        quiet(page)
        scripts: list[str] = page.evaluate(SCRIPTS)
    names = {script.rsplit("/", 1)[1] for script in scripts}
    if not names:
        raise RuntimeError("the first page has no script")
    return sum((BUILT / "assets" / f"{name}.gz").stat().st_size for name in names)


def catalog_opens(bench: Bench) -> float:
    """From the click on "Catalog" until the tiles that fill the window are painted."""
    with bench.page("/environments") as page:
        quiet(page)
        return float(page.evaluate(OPEN_CATALOG, 12))


def slowest_interaction(bench: Bench, environment: str) -> float:
    """Search a tile, open its form, fill it in, page after page, and add the component."""
    with bench.page(f"/environments/{environment}") as page:
        quiet(page)
        page.get_by_label("Search applications").press_sequentially("composed")
        page.get_by_role("button", name="Add Composed").click()
        page.get_by_label("text0").press_sequentially("some words")
        page.get_by_label("number0").press_sequentially("80")
        page.get_by_role("combobox", name="choice0").click()
        page.get_by_role("option", name="two").click()
        page.get_by_label("switch0").click()
        for number in (2, 3):
            page.get_by_role("button", name="Next").click()
            page.get_by_text(f"Step {number} of 3").wait_for()
            if number == 2:
                page.get_by_label("text1").press_sequentially("more words")
        page.get_by_role("button", name="Add to the environment").click()
        changes = page.get_by_role("region", name="Deploy will do this")
        changes.wait_for()
        page.get_by_role("button", name="Actions of").last.click()
        page.get_by_role("menuitem", name="Remove").click()
        page.get_by_role("button", name="Undo").click()
        quiet(page)
        slowest: list[list[Any]] = page.evaluate("Object.values(window.interactions)")
        if page.evaluate("performance.eventCounts.get('click')") < 8:
            raise RuntimeError("the browser did not see the clicks")
    # Every one was faster than the browser notes, or the slowest one.
    return max((float(took) for took, _ in slowest), default=16.0)


def many_objects() -> list[dict[str, Any]]:
    """Applications with three machines each: 1,000 objects."""
    made: list[dict[str, Any]] = []
    for number in range(MANY // 4):
        one = service_object(number)
        inner = one.pop("instance")
        one["instances"] = [{**inner, "name": f"vm-{number}-{place}"} for place in range(3)]
        made.append(one)
    return made


def package(name: str, files: dict[str, str]) -> bytes:
    """The archive of an application whose class is in ``Classes/App.yaml``."""
    buffer = io.BytesIO()
    ui = "UI: ui.yaml\n" if "UI/ui.yaml" in files else ""
    manifest = (
        f"Format: '1.4'\nType: Application\nFullName: bench.{name}\nVersion: 1.0.0\nName: {name}\n"
        f"Description: Of the benchmark\nAuthor: bench\nTags: []\n{ui}Classes:\n  bench.{name}: App.yaml\n"
    )
    with zipfile.ZipFile(buffer, "w") as opened:
        for path, text in {"manifest.yaml": manifest, **files}.items():
            opened.writestr(path, text)
    return buffer.getvalue()


def talked(caller: Caller) -> str:
    """The path of a deployment's page with very many reports."""
    upload(caller, "Talker", package("Talker", {"Classes/App.yaml": PROGRAM}))
    component = {"?": {"type": "bench.Talker/1.0.0", "id": "1" * 32}}
    made = caller.ok("POST", "/v1/environments", {"name": "talk", "services": [component]})["id"]
    at = f"/v1/environments/{made}"
    session = caller.ok("POST", f"{at}/configure")["id"]
    caller.ok("POST", f"{at}/sessions/{session}/deploy")
    until = time.monotonic() + 600
    while (status := caller.ok("GET", at)["status"]) == "deploying":
        if time.monotonic() > until:
            raise RuntimeError("the deployment does not end")
        time.sleep(0.2)
    (deployment,) = caller.ok("GET", f"{at}/deployments")["deployments"]
    reports = caller.ok("GET", f"{at}/deployments/{deployment['id']}")["reports"]
    if status != "ready" or len(reports) < REPORTS:
        raise RuntimeError(f"the deployment is {status} with {len(reports)} reports: {reports[-2]}")
    return f"/environments/{made}/deployments/{deployment['id']}"


def topology(bench: Bench, environment: str) -> None:
    """Move and zoom a graph of 1,000 objects."""
    with bench.page(f"/environments/{environment}/topology") as page:
        quiet(page)
        ground = page.locator(".react-flow__pane")
        box = ground.bounding_box()
        if box is None:
            raise RuntimeError("there is no graph")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)

        def pan(number: int) -> None:
            page.mouse.move(x + 200 * ((number % 40) / 20 - 1), y + 100 * ((number % 20) / 10 - 1))

        def zoom(number: int) -> None:
            page.mouse.wheel(0, -60 if number // 40 % 2 == 0 else 60)

        page.mouse.down()
        bench.frames(f"graph of {MANY} objects: move", page, pan)
        page.mouse.up()
        page.mouse.move(x, y)
        bench.frames(f"graph of {MANY} objects: zoom in and out", page, zoom)


def lists(bench: Bench, log: str) -> None:
    """Scroll long lists."""
    with bench.page("/environments") as page:
        quiet(page)
        page.mouse.move(640, 600)
        bench.frames(
            f"list of {MANY} environments: scroll",
            page,
            lambda number: page.mouse.wheel(0, 300 if number // 60 % 2 == 0 else -300),
        )
    with bench.page(log) as page:
        page.get_by_role("log").get_by_text(f"line {REPORTS - 1}").wait_for()
        page.get_by_role("log").hover()
        bench.frames(
            f"log of {REPORTS} reports: scroll",
            page,
            lambda number: page.mouse.wheel(0, -300 if number // 60 % 2 == 0 else 300),
        )


def measure(service: Service, browser: Browser) -> int:
    """Furnish the service, measure, judge."""
    caller = service.caller()
    bench = Bench(service, browser)
    program = "Name: bench.Composed\nExtends: io.murano.Application\n"
    files = {"Classes/App.yaml": program, "UI/ui.yaml": FORM}
    composed = upload(caller, "Composed", package("Composed", files))
    for number in range(MANY - 2):
        upload(caller, f"P{number}")
    edited = caller.ok(
        "POST",
        "/v1/environments",
        {"name": "edited", "services": [service_object(number) for number in range(20)]},
    )["id"]
    large = caller.ok("POST", "/v1/environments", {"name": "large", "services": many_objects()})[
        "id"
    ]
    log = talked(caller)
    for number in range(MANY - 3):
        caller.ok("POST", "/v1/environments", {"name": f"e-{number}"})
    header = {"X_Vetro_Dashboard": "bench"}
    bench.sign_in(caller.ok("POST", "/dashboard/api/links", **header)["url"])
    what = "first paint, signing in"
    bench.most(what, 1000, first_paint(bench, "/sign-in", signed_in=False))
    what = "first paint, a catalog's package"
    bench.most(what, 1000, first_paint(bench, f"/catalog/{composed}"))
    size = initial_script(bench) / 1000
    bench.topic.take("the first page's JavaScript, gzipped", size, "kB", 300)
    bench.most(f"open the catalog with {MANY} packages", 300, lambda: catalog_opens(bench))
    what = "slowest interaction of composing, to next paint"
    bench.most(what, 100, lambda: slowest_interaction(bench, edited))
    topology(bench, large)
    lists(bench, log)
    return bench.topic.end()


def main() -> int:
    """Run it on one core; 1 when a figure fails."""
    if not Path(CHROMIUM).exists() or not BUILT.is_dir():
        print(
            "It needs chromium (tools/system-packages.sh test) and the dashboard (make dashboard)"
        )
        return 1
    with running() as service:
        here = os.sched_getaffinity(0)  # one core
        for thread in Path(f"/proc/{service.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), here)
        with sync_playwright() as driver:
            options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
            try:
                return measure(service, browser)
            finally:
                browser.close()


if __name__ == "__main__":
    sys.exit(main())
