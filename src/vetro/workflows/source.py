"""The first phase: XML text to elements with positions.

expat of the standard library, with a builder of our own (docs/decisions/0230): it gives each element its
line, joins text across comments, and stops at a document type before any entity can be declared.
What it establishes for the next phase: the tree is well-formed, no deeper than ``DEPTH``, and free
of entities, comments and processing instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from vetro.workflows.errors import Place, WorkflowSyntaxError

DEPTH = 100
"""Nesting of elements. The interpreter recurses once a level."""
SIZE = 4 * 1024 * 1024
"""Bytes of one file."""
ELEMENTS = 100_000


@dataclass(slots=True)
class Element:
    """An element. ``children``: elements and non-empty texts, in order; no two texts in a row."""

    tag: str
    attributes: dict[str, str]
    place: Place
    children: list[Element | str] = field(default_factory=list["Element | str"])

    def elements(self) -> list[Element]:
        """The child elements."""
        return [child for child in self.children if isinstance(child, Element)]


def parse_xml(content: str | bytes, file: str) -> Element:
    """The root element of a file. Raises: WorkflowSyntaxError."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if len(data) > SIZE:
        raise WorkflowSyntaxError(f"the file is larger than {SIZE} bytes", Place(file, 1))
    parser = expat.ParserCreate("utf-8" if isinstance(content, str) else None)
    parser.buffer_text = True
    builder = _Builder(parser, file)
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        place = Place(file, error.lineno, error.offset + 1)
        raise WorkflowSyntaxError(f"not well-formed XML: {reason}", place) from error
    except (LookupError, UnicodeError, ValueError) as error:  # an encoding nobody knows
        raise WorkflowSyntaxError(f"not readable: {error}", Place(file, 1)) from error
    assert builder.root is not None, "expat refuses a document without a root"
    return builder.root


class _Builder:
    def __init__(self, parser: expat.XMLParserType, file: str) -> None:
        self.parser = parser
        self.file = file
        self.root: Element | None = None
        self.open: list[Element] = []
        self.count = 0

    def _place(self) -> Place:
        return Place(self.file, self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1)

    def doctype(self, *_: object) -> NoReturn:
        raise WorkflowSyntaxError(
            "a document type is not allowed: workflows declare no entities", self._place()
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        element = Element(tag, attributes, self._place())
        if len(self.open) >= DEPTH:
            raise WorkflowSyntaxError(f"elements nest deeper than {DEPTH}", element.place)
        if self.count > ELEMENTS:
            raise WorkflowSyntaxError(f"more than {ELEMENTS} elements", element.place)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, _tag: str) -> None:
        self.open.pop()

    def text(self, text: str) -> None:
        children = self.open[-1].children
        if children and isinstance(children[-1], str):
            # A comment or an instruction stood between them.
            children[-1] += text
        else:
            children.append(text)
