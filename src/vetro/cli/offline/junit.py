"""JUnit XML of test results, as CI systems read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from vetro.muranopl import MuranoTestResult

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def junit_document(results: Sequence[MuranoTestResult]) -> ElementTree.Element:
    """`<testsuites>` with one suite a test class."""
    root = ElementTree.Element("testsuites", {"name": "vetro test", **_totals(results)})
    for name, group in groupby(results, key=lambda item: item.test.class_name):
        listed = list(group)
        suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_totals(listed)})
        for result in listed:
            suite.append(_case(result))
    return root


def _totals(results: Sequence[MuranoTestResult]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(item.outcome == "failed" for item in results)),
        "errors": str(sum(item.outcome == "error" for item in results)),
        "time": f"{sum(item.seconds for item in results):.3f}",
    }


def _case(result: MuranoTestResult) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=result.test.class_name,
        name=result.test.method,
        time=f"{result.seconds:.3f}",
    )
    if result.position is not None:
        case.set("file", result.position.file)
        case.set("line", str(result.position.line))
    if result.outcome != "passed":
        tag = "failure" if result.outcome == "failed" else "error"
        kind = result.names[0] if result.names else result.outcome
        detail = ElementTree.SubElement(case, tag, message=_text(result.message), type=kind)
        detail.text = _text(result.trace)
    for tag, lines in (("system-out", result.log), ("system-err", result.warnings)):
        if lines:
            ElementTree.SubElement(case, tag).text = _text("\n".join(lines))
    return case


def write_junit(results: Sequence[MuranoTestResult], target: Path) -> None:
    """Write the document to a file."""
    tree = ElementTree.ElementTree(junit_document(results))
    ElementTree.indent(tree)
    target.parent.mkdir(parents=True, exist_ok=True)
    tree.write(target, encoding="utf-8", xml_declaration=True)
