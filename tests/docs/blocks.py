"""The fenced blocks of the README and of the pages in docs/, with what the page says of how they are tested.

A comment before a fence says so: `<!-- test: slow -->`, or `<!-- test: parsed, since … -->` for what a test
machine lacks or what has tests of its own. Any other block runs in the fast suite.
"""

import re
from dataclasses import dataclass
from typing import Literal

from tests.architecture.tracked import ROOT

_FENCE = re.compile(
    r"^(?:<!-- test: (?P<test>[^\n]+?) -->\n)?```(?P<language>\w*)(?: title=\"(?P<title>[^\"\n]+)\")?\n"
    r"(?P<text>.*?)^```$",
    flags=re.M | re.S,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        page: path in the repository.
        line: of its fence, counted from 1.
        language: `bash`, `python`, `sql`, `text` …
        title: the file that the block is, if it is one.
        test: how it is tested.
    """

    page: str
    line: int
    language: str
    title: str | None
    text: str
    test: Literal["runs", "slow", "parsed"]

    @property
    def commands(self) -> list[str]:
        """The commands of a bash block, without comments."""
        lines = [re.sub(r"(^|\s+)#.*", "", line).strip() for line in self.lines]
        return [line for line in lines if line]

    @property
    def lines(self) -> list[str]:
        """Its lines; one that ends with a backslash goes on in the next."""
        return self.text.replace("\\\n", " ").splitlines()


def pages() -> list[str]:
    """The README and every page of docs/. Fails rather than give none of docs/."""
    written = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "docs").rglob("*.md"))
    assert written, "docs/ has no page: nothing would be tested"
    return ["README.md", *written]


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = []
    for fence in _FENCE.finditer(text):
        test = (fence["test"] or "runs").partition(",")[0]
        assert test in ("runs", "slow", "parsed"), f"{page}: a block is marked {fence['test']!r}"
        blocks.append(
            Block(
                page=page,
                line=text.count("\n", 0, fence.start("language")) + 1,
                language=fence["language"],
                title=fence["title"],
                text=fence["text"],
                test=test,
            )
        )
    assert text.count("\n```") == 2 * len(blocks), f"{page}: a fence is not read as a block"
    return blocks


def expected_exit_code(line: str) -> int:
    """What a command's comment says that it ends with, `(exit 4)`; 0 unless it says so."""
    match = re.search(r"#.*\(exit (\d)\)", line)
    return int(match[1]) if match else 0
