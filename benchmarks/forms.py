"""`make bench`, topic forms: describe, validate and submit a page; a form opened for the first time.

A form of four pages with 40 fields, expressions and choices of the platform, without HTTP. Milliseconds of
the reference machine (`limits.py`); a wrong outcome is a failure.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from limits import Topic, repetitions

from vetro.packages.forms import Component, Offers, PageInvalid, load_form

CALLS = 30
LIMIT = 5.0
"""Milliseconds for a page."""
FIELD = """\
    - {{name: text{n}, type: string, initial: value{n}, maxLength: 80, regexpValidator: '/^[a-z]+[0-9]*$/i',
       label: $.p{page}.number{n}, validators: [{{expr: !yaql 'len($) > 1', message: longer}}]}}
    - {{name: number{n}, type: integer, initial: {n}, minValue: 0, maxValue: !yaql '100 + {n}'}}
"""
PLATFORM = """\
    - {name: flavor, type: flavor, requirements: {min_vcpus: 2}}
    - {name: image, type: image, imageType: linux}
    - {name: net, type: network}
    - {name: database, type: org.acme.Database, required: false}
"""


def definition() -> str:
    """The text of the form."""
    pages = [
        f"- p{page}:\n    fields:\n"
        + "".join(FIELD.format(n=n, page=page) for n in range(4))
        + PLATFORM
        + f"    validators: [{{expr: $.p{page}.number0 < 1000, message: large}}]\n"
        for page in range(4)
    ]
    return (
        "Version: 2.4\nTemplates:\n"
        "  node: {'?': {type: org.acme.Node}, host: !yaql \"generateHostname('n#', $index)\"}\n"
        "Application:\n  '?': {type: org.acme.Farm}\n  nodes: !yaql 'repeat($node, 20)'\n  net: $.p0.net[0]\n"
        "Forms:\n" + "".join(pages)
    )  # fmt: skip


OFFERS = Offers(
    {
        "flavors": [[f"f{n}", f"f{n}", {"vcpus": n % 8, "memory": 512 * n}] for n in range(20)],
        "images": [[f"i{n}", f"Image {n}", {"type": "linux" if n % 2 else "windows"}] for n in range(50)],
        "networks": [
            {"id": f"n{n}", "name": f"net{n}", "subnets": [{"id": f"s{n}", "cidr": "10.0.0.0/24"}]}
            for n in range(20)
        ],
    },
    [Component(f"c{n}", f"component {n}", "org.acme.Database") for n in range(50)],
)  # fmt: skip


def milliseconds(work: Callable[[], Any]) -> list[float]:
    """Processor time of one call, some times."""
    found: list[float] = []
    for factor in repetitions():
        began = time.process_time()
        for _ in range(CALLS):
            work()
        found.append((time.process_time() - began) * 1000 * factor / CALLS)
    return found


def main() -> int:
    """Measure, print, judge."""
    topic = Topic("forms")
    text, texts = definition(), itertools.count()
    form = load_form(text, package_name="org.acme.Farm", title="Farm")
    values = {"image": "i1", "net": "(n1, s1)"}
    state = form.fill(
        {f"p{page}.{key}": one for page in range(4) for key, one in values.items()}, OFFERS
    )
    model = form.build(state, OFFERS)
    if len(model["nodes"]) != 20 or model["net"] != "n1":
        topic.wrong(f"wrong object: {model}")
    try:
        form.submit("p3", {**values, "number0": "x"}, form.begin(), OFFERS)
        topic.wrong("a wrong value was taken")
    except PageInvalid as error:
        if list(error.errors) != ["number0"]:
            topic.wrong(f"wrong errors: {error.errors}")
    for what, work in (
        (
            "read a definition of 48 fields",
            # What was read is kept by its text, so each is another one.
            lambda: load_form(
                f"{text}# {next(texts)}\n", package_name="org.acme.Farm", title="Farm"
            ),
        ),
        ("describe a page of 12 fields", lambda: form.describe_page("p0", state, OFFERS)),
        ("describe the last of four pages", lambda: form.describe_page("p3", state, OFFERS)),
        ("describe the whole form", lambda: form.describe(state, OFFERS)),
        ("submit a page", lambda: form.submit("p3", values, state, OFFERS)),
        ("validate one field", lambda: form.check("p3", values, state, OFFERS, field="text0")),
        ("build the object with 20 nodes", lambda: form.build(state, OFFERS)),
    ):
        # The limit is of a page; a form is read and described as a whole once, when it is opened.
        whole = "whole" in what or "read" in what
        topic.take(what, milliseconds(work), "ms", None if whole else LIMIT)
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
