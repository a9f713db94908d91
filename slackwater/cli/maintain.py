"""`slackwater maintain`: retention, compaction and vacuum of a pipeline's tables. Starts no JVM."""

from dataclasses import asdict

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column


@click.command("maintain")
@click.argument("pipeline")
@click.option("--dry-run", is_flag=True, help="say what would be done, and do nothing")
@options.place
@printing.output
@options.log_format
def command(pipeline: NamedPipeline, *, dry_run: bool, output: Output) -> None:
    """Drop snapshots that are neither among the newest (Pipeline.keep_snapshots) nor the last of a period
    (keep_snapshot_every) nor needed by a branch or a staged run, and history that is older than
    Pipeline.keep_history; compact small files; delete files that are dead for a week; checkpoint the logs.

    \b
    Example: slackwater maintain departures --dry-run
    """
    work = pipeline.open().maintenance()
    rows = [asdict(upkeep) for upkeep in (work.plan() if dry_run else work.run())]
    columns = [
        Column("table"),
        Column("snapshots", heading="snapshots dropped"),
        Column("kept", heading="snapshots kept"),
        Column("rows", heading="rows dropped"),
        Column("bytes", "size", heading="size dropped"),
        Column("compacted", heading="files compacted"),
        Column("vacuumed", heading="files deleted"),
        Column("note", "text", is_optional=True),
    ]
    printing.show(
        rows, columns, output, empty="", title="what would be done; nothing was" if dry_run else None
    )
