"""`slackwater VERB …`: finds the verb's file, runs it, and turns errors into exit codes.

Importing this file imports no verb, so that inspection stays fast and starts no JVM.
"""

import difflib
import gc
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from slackwater.errors import SlackwaterError, out_of_memory, without_credentials
from slackwater.runtime.memory import keep_heap
from slackwater.runtime.process_end import end_if_stalled, end_with_parent
from slackwater.tables.errors import DamagedFile, NoRuns
from slackwater.tables.storage_errors import is_failure, unforeseen
from slackwater.windowing.errors import ConfigurationError, WindowingError

VERBS = {
    "sources": "look at a table or folder: what it is, and a pipeline file to start from",
    "pipelines": "what is registered: source, window, lateness, engine",
    "plan": "what a run or a restatement would read, reopen and cost",
    "run": "one slice, or catch up to a time",
    "backfill": "restate a range and publish it at once",
    "publish": "make staged runs or a branch live",
    "branches": "lineages beside main",
    "runs": "the ledger as a log; one run in detail",
    "verify": "repeat a recorded run and compare",
    "state": "windows, timers, state and watermarks between runs; fork, restore, close",
    "health": "green, yellow or red for each pipeline, with the reasons",
    "diff": "windows that two pipelines, or main and a branch, publish differently",
    "history": "what was published when, and why it changed",
    "explain": "the life of one window, and what it waits for",
    "late": "rows that came too late",
    "quarantine": "rows that cannot be used, and why",
    "sql": "ask the tables in SQL, as of any run",
    "sinks": "the further places that results are delivered to, and how far each is",
    "maintain": "retention, compaction, vacuum",
    "erase": "erase somebody's rows from every table, and record it",
    "examples": "list the examples, load their data",
    "bench": "generated workloads against Spark's own windows, DuckDB and Flink",
    "serve": "pages about every pipeline, in a browser",
    "doctor": "is everything there that a run needs?",
    "conformance": "play recorded traces of Flink",
}


# Verbs that change nothing: they start no JVM and answer in well under a second.
INSPECTION = frozenset(
    {
        "pipelines",
        "sources",
        "branches",
        "plan",
        "runs",
        "state",
        "health",
        "diff",
        "history",
        "explain",
        "late",
        "quarantine",
        "sql",
        "examples",
        "doctor",
        "sinks",
        "serve",
    }
)
# Their subcommands and options that do work after all.
WORK = (
    frozenset({"state", "close"}),
    frozenset({"late", "redrive"}),
    frozenset({"runs", "--data-docs"}),
    frozenset({"sinks", "deliver"}),
    frozenset({"doctor", "--cluster"}),
)


class _PandasRefusal:
    """An import finder by which pandas counts as not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ImportError("pandas is not wanted here", name=name)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas in the block. Where it is installed, Arrow imports it at the first Python value that it
    converts, and that import takes longer than an inspection verb may.
    """
    refusal = _PandasRefusal()
    sys.meta_path.insert(0, refusal)
    try:
        yield
    finally:
        sys.meta_path.remove(refusal)


@contextmanager
def seldom_collected_garbage() -> Iterator[None]:
    """Let Python look for cyclic garbage seldom in the block. By default it looks after 700 new objects; a
    verb makes hundreds of thousands while it imports, all to stay.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(500_000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class Verbs(click.Group):
    """The group of all verbs; it imports the file of a verb when the verb is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"slackwater.cli.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], VERBS, n=1, cutoff=0.5)
            raise click.UsageError(
                f"No such verb {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""), ctx
            )
        # Before the verb's file is imported, since its imports may make Arrow look for pandas.
        words = {word.partition("=")[0] for word in args}
        if args[0] in INSPECTION and not any(words_of_work <= words for words_of_work in WORK):
            ctx.with_resource(without_pandas())
            if args[0] != "serve":  # which lives long
                ctx.with_resource(seldom_collected_garbage())
        elif not words & {"-h", "--help"}:
            # Arrow looks for pandas when it is first imported, and no more after that; whoever has use for
            # pandas besides imports it.
            with without_pandas():
                import pyarrow.dataset  # noqa: F401 - the import is the work
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NoRuns as error:
            _refuse_unregistered(error, ctx)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def _refuse_unregistered(error: NoRuns, context: click.Context) -> None:
    """Raise UnknownPipeline for a pipeline without runs that is not registered: `run` can't run it."""
    from slackwater.cli.options import PIPELINES
    from slackwater.pipelines import registry

    name = error.facts.get("pipeline")
    if isinstance(name, str):
        registry.load(context.meta.get(PIPELINES))[name]


def _print_version(context: click.Context, option: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from slackwater.pipelines.registry import product_version

        click.echo(f"slackwater {product_version()}")
        context.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="show the version and exit",
)
def slackwater() -> None:
    """Replays historical events through Flink's windows, slice after slice, and keeps what is open in Delta
    tables.
    """


def run(work: Callable[[], Any]) -> int:
    """Do `work` and return its exit code: 0 done, 1 failed for good, 2 usage, 3 try again, 4 rejected, 5 lost
    the race.
    """
    try:
        code = work()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing that was not committed counts", err=True)
        return 1
    # click and rich raise it when the reader of our output has gone; the user's own code may raise it too
    except SystemExit as exit_:
        return _code_of_exit(exit_)
    except BaseException as error:
        failure = _failure(error)
        if failure is None:
            raise
        message, code = failure
        click.echo(f"slackwater: {message}", err=True)
        return code
    return code if isinstance(code, int) else 0


def _failure(error: BaseException) -> tuple[object, int] | None:
    """What to say of an error, and the exit code; None for one that is not foreseen."""
    if isinstance(error, DamagedFile):
        from slackwater.tables.damaged_tables import explain_damage

        return explain_damage(error), error.exit_code
    if isinstance(error, SlackwaterError):
        return error, error.exit_code
    if isinstance(error, WindowingError):
        code = 3 if error.retryable else 2 if isinstance(error, ConfigurationError) else 1
        return without_credentials(str(error)), code
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        advice = f'{error.name} is not installed here. Install it: pip install "slackwater[{extra}]".'
        return None if extra is None else (advice, 1)
    is_of_storage = isinstance(error, _storage_errors()) or (
        (_is_panic(error) or isinstance(error, ImportError)) and is_failure(error)
    )
    failure = out_of_memory(error) or (unforeseen(error) if is_of_storage else None)
    return None if failure is None else (failure, failure.exit_code)


def _code_of_exit(exit_: SystemExit) -> int:
    if _is_of_printing(exit_):
        return exit_.code if isinstance(exit_.code, int) and exit_.code else 1
    click.echo(
        f"slackwater: sys.exit({exit_.code!r}) was called by a function of the pipeline, or by what it "
        "imports. What is committed stays. Let it raise an error instead, then repeat the command.",
        err=True,
    )
    return 1


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


def _is_of_printing(exit_: SystemExit) -> bool:
    """Whether click or rich has raised it because the reader of our output has gone."""
    places = [frame for frame, _ in traceback.walk_tb(exit_.__traceback__)]
    return str(places[-1].f_globals.get("__name__")).partition(".")[0] in ("click", "rich")


_EXTRAS = {
    **dict.fromkeys(("pyspark", "py4j", "delta", "pandas", "rocksdict"), "spark"),
    "great_expectations": "gx",
    "sqlalchemy": "sql",
    "redis": "redis",
    **dict.fromkeys(("fastapi", "starlette", "uvicorn", "jinja2", "plotly"), "pages"),
}


def _storage_errors() -> tuple[type[Exception], ...]:
    """The errors that storage raises; those of deltalake only if it is imported."""
    delta = sys.modules.get("deltalake.exceptions")
    return (OSError,) if delta is None else (OSError, delta.DeltaError)


def finish(work: Callable[[], Any]) -> NoReturn:
    """Do `work` and end the process with its exit code. The interpreter's own clean-up is skipped: delta-rs
    may abort in it, and that would change the exit code.
    """
    keep_heap()

    def watched_work() -> Any:
        end_if_stalled()
        return work()

    try:
        code = run(watched_work)
    except BaseException:
        logging.exception("a fault of slackwater, or something that it did not foresee")
        code = 1
    try:
        stop_spark()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # the work is done, so its exit code holds even if stopping Spark fails
        os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line in a process of the caller's, which continues afterwards; returns the exit
    code.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run(lambda: slackwater.main(words, prog_name="slackwater", standalone_mode=False))


def application(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the console script, and of the PySpark applications that spark-submit starts: the
    process is the command's, and ends with it. For `arguments` see `main`.
    """
    # delta-rs logs what it also raises; the variable of its log is the user's to set otherwise.
    os.environ.setdefault("RUST_LOG", "off")
    end_with_parent()
    finish(lambda: main(arguments))


def stop_spark() -> None:
    module = sys.modules.get("pyspark.sql")
    session = module.SparkSession.getActiveSession() if module is not None else None
    if session is not None:
        session.stop()


if __name__ == "__main__":
    application()
