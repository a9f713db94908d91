"""The list of decision records: the title of each page of docs/decisions."""

from generators.files import ROOT


def index(*, page: str) -> str:
    """One line a record, in the order of their file names."""
    records = sorted(file for file in (ROOT / "docs/decisions").glob("*.md") if file.name != "index.md")
    assert records
    return "\n".join(f"- [{_title(file.read_text(encoding='utf-8'))}]({file.name})" for file in records)


def _title(text: str) -> str:
    first = text.splitlines()[0]
    assert first.startswith("# "), first
    return first[2:]
