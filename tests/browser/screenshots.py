"""`python -m tests.browser.screenshots` makes the pictures of pages in docs/images, of the month of flights
that the tests of pages open. Look at each of them before it is committed.
"""

import io
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image

from tests.browser.chromium import launched
from tests.browser.conftest import served, write_month
from tests.browser.test_pages import opened, plots_are_drawn
from tests.integration.stored import ROOT

FOLDER = ROOT / "docs" / "images"
_COLOURS = 256


class Picture(NamedTuple):
    """A picture of a page: the name of its file, the page, and what of it is seen, in pixels."""

    name: str
    path: str
    height: int
    width: int = 1280
    scheme: Literal["light", "dark"] = "light"


PICTURES = (
    Picture("warehouse", "/", 260),
    Picture("pipeline", "/departures?last=90", 1240),
    Picture("run", "/departures/runs/10", 1180),
    Picture("window", "/departures/window?key=EWR&start=2013-01-10T18:00&elements=true", 1180),
    Picture("late", "/departures/late", 860),
    Picture("diff", "/departures/diff?a=9&b=10", 720),
    Picture("pipeline_narrow", "/departures?last=90", 900, 400, "dark"),
)


# Texts name the folder of the warehouse, which is of no interest.
_RENAME = """folder => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replaceAll(folder, "/data");
}"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(write_month(Path(folder) / "warehouse")) as address,
        launched() as browser,
    ):
        for picture in PICTURES:
            with opened(browser, address, picture.width, picture.scheme) as (page, _):
                page.set_viewport_size({"width": picture.width, "height": picture.height})
                page.goto(address + picture.path)
                plots_are_drawn(page)
                page.evaluate(_RENAME, folder)
                page.wait_for_timeout(500)
                pixels = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            pixels.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE).save(
                FOLDER / f"{picture.name}.png", optimize=True
            )


if __name__ == "__main__":
    main()
