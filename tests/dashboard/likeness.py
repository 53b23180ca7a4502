"""Whether two pictures show the same page: robust against rendering, not against a layout that is broken.

The pictures are read and compared by the browser that takes them (`likeness.js` says how), so nothing else
has to be installed. What is allowed is measured in cells of 4 x 4 pixels: a region of `REGION` cells is about
a word, `SHARE` of all cells is what is left of noise that is spread over a page.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

SCRIPT = Path(__file__).with_name("likeness.js").read_text(encoding="utf-8")
CELL = 4
NEAR = 24
"""Steps of 255 that a colour may be off: smoothing and compression make up to twelve."""
GAP = 2
REGION = 24
SHARE = 0.004


@dataclass(frozen=True)
class Region:
    """Where pictures differ: ``box`` is left, top, right and bottom, in pixels."""

    cells: int
    box: tuple[int, int, int, int]

    def __str__(self) -> str:
        left, top, right, bottom = self.box
        return f"{right - left} x {bottom - top} pixels at {left}, {top}"


@dataclass(frozen=True)
class Difference:
    """What differs between two pictures, the largest region first."""

    regions: tuple[Region, ...]
    share: float
    sizes: str = ""

    @property
    def matters(self) -> bool:
        """Whether it is more than another way to draw the same page."""
        return bool(self.sizes) or self.share > SHARE or self.largest >= REGION

    @property
    def largest(self) -> int:
        """Cells of the largest region."""
        return max((one.cells for one in self.regions), default=0)

    def __str__(self) -> str:
        if self.sizes:
            return self.sizes
        places = "; ".join(str(one) for one in self.regions[:4] if one.cells >= REGION // 2)
        return f"{self.share:.2%} of the picture{': ' if places else ''}{places}"


def difference(page: Page, one: bytes, other: bytes) -> Difference:
    """Compare two pictures (WebP or PNG) in ``page``, which may be any page, also an empty one."""
    texts = [base64.b64encode(picture).decode() for picture in (one, other)]
    found = page.evaluate(SCRIPT, [*texts, {"cell": CELL, "near": NEAR, "gap": GAP}])
    sizes = found["sizes"]
    return Difference(
        tuple(Region(region["cells"], tuple(region["box"])) for region in found["regions"]),
        found["share"],
        f"the sizes {sizes[0]} and {sizes[1]} differ" if sizes else "",
    )
