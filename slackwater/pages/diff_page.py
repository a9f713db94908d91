"""The pages of differences: main against a branch before it is published (the dry run of a restatement), two
rows of the ledger, or two pipelines, side by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response

from slackwater.errors import UsageError
from slackwater.inspection.change_text import are_equal, window_text
from slackwater.inspection.changes.change_tables import changes_table
from slackwater.inspection.changes.comparison import PublishedComparison, published_days
from slackwater.inspection.changes.published_changes import PublishedChanges, changes_between
from slackwater.pages.drawing.answer_table import changes_view, key_argument, summary_text, window_href
from slackwater.pages.drawing.run_tables import figures_table
from slackwater.pages.drawing.table_view import Cell, PageColumn, TableView
from slackwater.pages.frame.links import link, same_page
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView, site_of
from slackwater.readable import key_text, plain_text, time_text, value_text
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.publish_branch import BranchPublication, BranchPublisher
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.ledger.spans import seqs_of

router = APIRouter()
ROWS = 100
# Two pipelines are compared so many days at once.
DAYS = 14
# So many rows of the ledger are offered.
_ROWS_OFFERED = 60

PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
# What is compared: a seq, `main` or a branch; a pipeline.
Name = Annotated[str | None, Query(max_length=80)]


@router.get("/-/diff", name="diff_pipelines")
def pipelines_page(request: Request, a: Name = None, b: Name = None, page: PageNumber = 1) -> Response:
    site, names = site_of(request), site_of(request).visible_names(request)
    answer: Mapping[str, Any] = {}
    if a and b:
        for name in (a, b):
            site.pipeline(request, name)  # refuses what the sender may not see
        answer = _pipelines(request, a, b, page)
    return render(
        request,
        "diff.html",
        pipeline=None,
        title="Two pipelines",
        options=[(name, name) for name in names],
        asked={"a": a or "", "b": b or ""},
        proposals=[],
        **{**_NOTHING, **answer},
    )


@router.get("/{pipeline}/diff", name="diff")
def diff_page(
    request: Request, view: PipelineInPath, a: Name = None, b: Name = None, page: PageNumber = 1
) -> Response:
    answer: Mapping[str, Any] = {}
    proposals = [] if a and b else _proposals(view)
    if a and b:
        answer = _rows_of_ledger(request, view, a, b, page)
    elif proposals:
        _, a, b = proposals[0]
    return render(
        request,
        "diff.html",
        pipeline=view.name,
        title="Runs and branches",
        options=_options(view),
        asked={"a": a or "", "b": b or ""},
        **{**_NOTHING, **answer},
        proposals=[
            (text, link(request, "diff", {"a": left, "b": right}, pipeline=view.name))
            for text, left, right in proposals
        ],
    )


_NOTHING: Mapping[str, Any] = {
    "heading": "",
    "summary": "",
    "rows": None,
    "figures": None,
    "obstacle": "",
    "shown": "",
    "previous_page": "",
    "next_page": "",
    "commands": (),
}


def _options(view: PipelineView) -> list[tuple[str, str]]:
    """What can be compared: main, its branches, and the newest rows of the ledger."""
    ledger = view.inspection.tables.ledger
    newest = ledger.newest()
    rows = [] if newest is None else ledger.rows(max(0, newest.seq - _ROWS_OFFERED))
    branches = [(branch.name, f"branch {branch.name}") for branch in view.inspection.branches()]
    return [
        (MAIN, "main, as it is"),
        *branches,
        *((str(row.seq), _title(row)) for row in reversed(rows) if row.branch == MAIN),
    ]


def _title(row: LedgerRow) -> str:
    end = "" if row.slice_end is None else f" to {time_text(row.slice_end)}"
    return f"{row.kind} {row.seq}{end}"


def _proposals(view: PipelineView) -> list[tuple[str, str, str]]:
    """Comparisons that a reader is likely to want, with a and b: what each branch would change, and what the
    last row of main has changed.
    """
    proposals = [
        (f"What publishing the branch {branch.name} would change", MAIN, branch.name)
        for branch in view.inspection.branches()
        if branch.own_seqs
    ]
    head = view.inspection.tables.ledger.head()
    if head is not None and head.parent_seq is not None:
        text = f"What {head.kind} {head.seq} has changed"
        proposals.append((text, str(head.parent_seq), str(head.seq)))
    return proposals


def _rows_of_ledger(request: Request, view: PipelineView, a: str, b: str, page: int) -> Mapping[str, Any]:
    """The answer for two rows of the ledger, each named by a seq, `main` or a branch."""
    left, right = view.inspection.at(a), view.inspection.at(b)
    if (left.branch == MAIN) != (right.branch == MAIN) and MAIN in (a, b):
        return _branch(request, view, b if a == MAIN else a, page)
    earlier, later = sorted((left, right), key=lambda row: row.seq)
    answer: dict[str, Any] = {
        "heading": f"Run {earlier.seq} → run {later.seq}",
        "figures": figures_table([earlier], [later], str(earlier.seq), str(later.seq)),
        "commands": [
            (view.command("state diff", earlier.seq, later.seq), "What differs in the parked state")
        ],
    }
    declaration = view.declaration
    try:
        changes = changes_between(
            view.inspection,
            earlier,
            later,
            purges=declaration is not None and declaration.purges,
            limit=ROWS,
            offset=(page - 1) * ROWS,
        )
    except UsageError as error:
        return {**answer, "obstacle": error.message}
    if earlier.seq == later.parent_seq:
        command = (view.command("history", "--run", later.seq), "The same on a terminal")
        answer["commands"] = [command, *answer["commands"]]
    return {**answer, **_changes(request, view, changes, page, f"run {earlier.seq} → run {later.seq}")}


def _branch(request: Request, view: PipelineView, name: str, page: int) -> Mapping[str, Any]:
    """The answer for main against a branch: what its publication would change."""
    declaration, tables = view.declaration, view.inspection.tables
    if declaration is None:
        raise HTTPException(
            400, f"{view.name} is not registered here, and a branch is compared by its declaration."
        )
    roll_forward = RollForward.from_stored(declaration, tables)
    publisher = BranchPublisher(declaration, view.site.warehouse, tables, roll_forward)
    publication = publisher.publication_of(name)
    heading = f"main → branch {name}"
    if publication is None:
        return {"heading": heading, "summary": "Main has all runs of the branch."}
    changes = PublishedChanges.of_branch(publisher, publication, ROWS, (page - 1) * ROWS)
    staying_seqs = {*seqs_of(publication.branch.fork.live), *(row.seq for row in publication.later_runs)}
    replaced_runs = [row for row in tables.ledger.live_runs(publication.main) if row.seq not in staying_seqs]
    return {
        **_changes(request, view, changes, page, "main → branch"),
        "heading": heading,
        "figures": figures_table(replaced_runs, publication.branch_runs, "main", name),
        "obstacle": ""
        if publication.obstacle is None
        else "The branch can’t be published yet; these are the changes by the runs that it has. "
        + publication.obstacle.message,
        "commands": list(_branch_commands(view, name, publication)),
    }


def _branch_commands(
    view: PipelineView, name: str, publication: BranchPublication
) -> Iterator[tuple[str, str]]:
    yield view.command("diff", "--branch", name), "The same on a terminal"
    if publication.obstacle is None:
        yield (
            view.command("publish", *publication.arguments),
            "Publish the branch: this writes what is shown here, or nothing where main has moved meanwhile",
        )
    yield view.command("branches drop", name), "Give the branch up"


def _changes(
    request: Request, view: PipelineView, changes: PublishedChanges, page: int, change_heading: str
) -> Mapping[str, Any]:
    first, last = (page - 1) * ROWS + 1, (page - 1) * ROWS + len(changes.rows)
    return {
        "summary": f"{summary_text(changes)}." if changes.total else "No published row differs.",
        "rows": changes_view(
            request, view.name, changes, changes_table(changes, "Rows that differ", heading=change_heading)
        )
        if changes.total
        else None,
        "shown": f"rows {first:,} to {last:,} of {changes.total:,}" if changes.rows else "no more rows",
        "previous_page": same_page(request, page=page - 1) if page > 1 else "",
        "next_page": same_page(request, page=page + 1) if last < changes.total else "",
    }


def _pipelines(request: Request, a: str, b: str, page: int) -> Mapping[str, Any]:
    """The answer for two pipelines: their published rows of some days, the newest first."""
    warehouse = site_of(request).warehouse.root
    days = published_days((a, b), warehouse)
    shown_days = days[(page - 1) * DAYS : page * DAYS]
    comparison = PublishedComparison.of(a, b, warehouse, set(shown_days))
    differences = comparison.differences()
    rows = [
        (
            *([key_text(list(row["key"].values()))] if comparison.keys else []),
            Cell(window_text(row), window_href(request, a, row, key_argument(list(row["key"].values())))),
            *(row[name] for name in comparison.windows[2:]),
            Cell(_values_text(row["left"], row["right"]), tone="wrap"),
            Cell(_values_text(row["right"], row["left"]), tone="wrap"),
        )
        for row in differences[:ROWS]
    ]
    return {
        "heading": f"{a} | {b}",
        "summary": f"{len(differences):,} rows differ on {_days_text(shown_days)}.",
        "rows": TableView(
            caption="Rows that differ",
            columns=[
                *([PageColumn("Key")] if comparison.keys else []),
                PageColumn("Window"),
                *(PageColumn(name) for name in comparison.windows[2:]),
                *(PageColumn(a), PageColumn(b)),
            ],
            rows=rows,
            empty="Both have published the same on these days.",
        ),
        "shown": f"{_days_text(shown_days)}, the first {len(rows):,} of {len(differences):,} rows",
        "previous_page": same_page(request, page=page - 1) if page > 1 else "",
        "next_page": same_page(request, page=page + 1) if page * DAYS < len(days) else "",
        "commands": [(site_of(request).command("diff", a, b), "All days on a terminal")],
    }


def _days_text(days: Sequence[Any]) -> str:
    dates = [day for day in days if day is not None]
    if not dates:
        return "rows without a day" if days else "no day"
    first, last = dates[-1], dates[0]
    return str(first) if first == last else f"{first} to {last}"


def _values_text(values: Mapping[str, Any] | None, others: Mapping[str, Any] | None) -> str:
    """The results of one pipeline that differ from the other's, or all where the other lacks the row."""
    if values is None:
        return "no such row"
    return ", ".join(
        f"{plain_text(name)} {value_text(value)}"
        for name, value in values.items()
        if others is None or not are_equal(value, others[name])
    )
