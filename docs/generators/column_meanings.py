"""What each table is for and what each of its columns holds, in the words of the reference.

Names and types are the schemas'; only meanings stand here.
"""

# Table → its purpose, in the order of the page.
TABLES = {
    "runs": "The ledger: one row for each committed run and for each row that only moves the lineage. "
    "Append-only, by compare-and-swap. It alone says which rows of all other tables count.",
    "attempts": "Every attempt at a slice and its outcome, append-only: the newest row of a `run_id` says "
    "how it ended. Also the advisory claims.",
    "published": "The result: for each key and window the newest firing. This is the table for readers.",
    "corrections": "Every change of `published`, with old and new values and the cause.",
    "panes": "Every firing of every window, of every run; only rows of live runs count.",
    "late_events": "Rows that came too late for every window they belong to. One row an element.",
    "quarantine": "Rows that cannot be used, with the reason.",
    "validations": "Every check of every run, also of rejected ones.",
    "window_state": "Part of the snapshot at a run's end: the open windows.",
    "keyed_state": "Part of the snapshot: what user functions keep for a key, per-window state, pieces of "
    "long lists, also of those that windows hold, and the rows that `distinct_by` remembers.",
    "timers": "Part of the snapshot: pending timers.",
    "source_progress": "Part of the snapshot: how far each source partition has come. The row with a null "
    "partition holds the pipeline's watermark and clock.",
    "overrides": "Arrivals that were changed on purpose (redriven rows), with the reason. Append-only.",
    "side_<tag>": "A side output of a user function, one table a tag. Only rows of live runs count.",
}

# Columns that mean the same in every table that has them and does not say otherwise.
EVERYWHERE = {
    "run_id": "the attempt that wrote the row; `runs` says whether it counts",
    "key_group": "Flink's key group of the key, 0 to `max_parallelism` − 1",
    "<key>": "a key column, under its own name; one for each",
    "<result>": "a result column, under its own name; one for each",
    "<source column>": "a column of the source, under its own name; one for each",
    "<output column>": "a column that `side_outputs=` declares",
    "window_start": "first instant of the window; null for the global window, without windows, and for "
    "windows of a class of your own that has no `start`",
    "window_end": "end of the window, exclusive: its last instant + 1 ms; null for the global window, "
    "without windows, and for windows that never end",
    "<window column>": "a column that a class of windows of your own declares, under its own name; one for "
    "each, none for other windows",
    "state_window_<window column>": "the same of the state window",
    "namespace_<window column>": "the same of the namespace",
    "firing": "how often the window has fired, this time included, counted from 1",
    "ordinal": "position among the rows of one firing, or of one run of a `KeyedProcessFunction`",
    "timestamp": "of a `KeyedProcessFunction` alone: that of the element or of the event timer",
    "kind": "`on_time`, `late`, `early` (before the window's last instant), `count` (a firing of the global "
    "window), `emitted` (by a `KeyedProcessFunction`; `count` where an earlier version ran) or `withdrawn` "
    "(the rows before it are taken back)",
    "watermark": "the watermark at that moment",
    "revision": "how often the row has changed, counted from 1",
    "slice_start": "first arrival of the slice",
    "slice_end": "end of the slice's arrivals, exclusive",
    "attempt": "number of the attempt at exactly this slice, counted from 1",
    "parent_seq": "the ledger row that this one continues",
}

COLUMNS = {
    "runs": {
        "seq": "number of the row, ascending over all branches",
        "run_id": "the run whose staged rows this row makes count",
        "kind": "`run`, `close`, `publish`, `restore`, `fork`, `drop` or `erase`; only `run` and "
        "`close` have panes and a snapshot",
        "branch": "`main`, or the name of a branch",
        "live": "the runs that make up the branch after this row, as spans of seqs in slice order",
        "engine": "`columnar` or `operator`",
        "watermark_in": "watermark at the slice's start",
        "watermark_out": "watermark at its end",
        "inputs": "each table that was read, with its id, the pinned version, and files, rows and bytes; of "
        "`overrides` how many there were (version) and how many rows they have moved (rows)",
        "config_hash": "hash of the pipeline's declarations",
        "code_hash": "hash of the pipeline's code and of Slackwater's version",
        "format_version": "format of the tables that wrote the row",
        "rows_read": "rows of the source in the slice, folded and redriven ones included",
        "rows_filtered": "rows that `where=` leaves out",
        "rows_accepted": "rows that went into at least one window, or to a process function",
        "rows_late": "rows that were late for every window",
        "rows_unassigned": "rows that no window took, without being late by their own time",
        "rows_quarantined": "rows that cannot be used",
        "rows_folded": "stragglers that this run took in",
        "assignments_missed": "(accepted element, window) pairs for which the element was late",
        "elements_never_fired": "elements whose window was cleaned up without a firing that held them",
        "windows_opened": "windows that got their first element",
        "windows_fired": "windows that fired for the first time",
        "windows_refired": "further firings",
        "windows_merged": "sessions absorbed by another",
        "windows_cleaned": "windows that were collected",
        "windows_open": "windows open at the end",
        "timers_pending": "timers pending at the end",
        "verdict": "`passed`, `warned`, `failed`, or `accepted: REASON`",
        "state_hash": "content hash of the snapshot",
        "output_hash": "content hash of panes and side outputs",
        "files": "table → files that the run has written",
        "started_at": "wall clock at the claim",
        "committed_at": "wall clock at the commit",
        "phase_seconds": "phase → its seconds",
        "version": "version of Slackwater that wrote the row",
        "table_versions": "table → its Delta version when the row was committed",
        "rows_emitted": "rows that a `KeyedProcessFunction` has emitted; null where an earlier version ran",
        "side_rows": "rows that functions have written to side outputs; null where an earlier version ran",
        "rows_duplicate": "rows that `distinct_by` leaves out; null where an earlier version ran",
        "rows_exploded": "with `explode`: how many rows of the source had these items; null where an "
        "earlier version ran",
        "place": "what replayed the slice: `spark` (tasks of Spark), `threads` (of the process that ran the "
        "command) or `processes` (beside it); null where an earlier version ran",
        "place_reason": "why there: what `on` asks for, or the size that decided it",
        "erased": "of an `erase` row: for each table and run the rows that were taken out, their hash, and "
        "the files before and after",
    },
    "attempts": {
        "owner": "the process that holds the claim",
        "claimed_at": "when it was claimed",
        "expires_at": "until when the claim stands unless it is renewed",
        "outcome": "`claimed`, `staged`, `committed`, `rejected`, `failed` or `lost`",
        "verdict": "verdict of the validation",
        "ledger_row": "the row that `publish` commits, and the declarations, as JSON",
        "exit_code": "exit code of the command",
        "step": "the step that it ended in; `maintain` marks the claim of an upkeep",
        "error": "what went wrong",
        "at": "when this row was written",
    },
    "published": {
        "run_seq": "seq of the run whose firing this is",
        "window_date": "UTC day of `window_start`, else of the window's last millisecond, or of `timestamp`",
    },
    "corrections": {
        "seq": "ledger row that brought the change",
        "run_id": "run whose firing it is",
        "op": "`insert`, `update` or `withdraw`",
        "cause": "`first`, `late`, `merge`, `restatement`, `restore`, `redrive` or `results`",
        "old": "results before; null for an insert",
        "new": "results after; null for a withdrawal",
        "at": "when the change was rolled forward",
    },
    "panes": {
        "elements": "elements in the window's contents at the firing",
        "tick_end": "end of the tick whose watermark made it fire; null when an element did",
        "cause_arrival": "arrival of the element that made it fire, or absorbed it; null when a timer did",
    },
    "late_events": {
        "event_time": "event time in milliseconds",
        "arrival_time": "arrival in milliseconds",
        "windows": "the windows that it missed, with the columns that their class declares",
        "late_by_ms": "watermark − event time",
    },
    "quarantine": {
        "reason_code": "`null_key`, `null_event_time`, `time_out_of_range`, `ahead_of_arrival`, "
        "`behind_arrival`, `null_arrival`, `arrival_out_of_range`, `expression_failed` or `user_code`",
        "reason": "the reason in words",
        "row_json": "the row, as JSON",
        "source_file": "the source's file that holds the row",
        "source_version": "pinned version of the source",
        "arrival_time": "arrival of the row; null if it has none",
        "column_name": "the column at fault, if one is",
    },
    "validations": {
        "expectation": "the expectation, e.g. `1 <= flights`",
        "column_name": "the column that the expectation is about",
        "severity": "`reject`, `warn` or `note`",
        "passed": "whether the expectation holds",
        "observed": "the range of the column's values, or the values",
        "unexpected": "how many values broke the rule",
        "checked": "how many values were checked",
        "sample_json": "a few values that broke the rule, as JSON",
        "result_json": "of an expectation of a suite the result of Great Expectations, as JSON; else null",
    },
    "window_state": {
        "state_window_start": "of sessions whose contents have an order: the window that holds the state",
        "state_window_end": "its end",
        "elements": "elements in the window's contents",
        "firings": "how often the window has fired",
        "last_fired_at": "the virtual clock at its newest firing",
        "next_firing": "when the window fires next, if that is known",
        "cleanup_time": "when the window is cleaned up; null for never",
        "first_arrival": "arrival of its first element",
        "last_arrival": "arrival of its newest element",
        "<result>__<part>": "a part of a result's accumulator, such as `mean_dep_delay__sum`",
        "contents": "what a function's window holds, as JSON; null for a `select`, unless it lacks results "
        "that were added while it was open: then their names; null for a long list, too: its pieces stand in "
        "`keyed_state`",
        "trigger_state": "the trigger's state, as JSON",
        "user_state": "per-window state of a function, as JSON",
    },
    "keyed_state": {
        "state_name": "name of the state's descriptor; `distinct_by` for a row that deduplication remembers",
        "namespace_start": "of state that belongs to a window: its start; of a remembered row: event time",
        "namespace_end": "the window's end; of a remembered row: the watermark at which it is forgotten",
        "map_key": "of a map state: the key, as JSON; of a long list: the number of the piece, about a "
        "megabyte of text or 65,536 typed elements; of a remembered row: its values of `distinct_by`, as a "
        "JSON array",
        "<state>__value": "value of a state whose descriptor has a SQL type",
        "value_json": "value of any other state, as JSON",
    },
    "timers": {
        "service": "name of the timer service",
        "domain": "`event` or `processing`",
        "time": "when it is due; null for the end of time",
        "purpose": "`fire`, `cleanup`, `fire+cleanup`, `trigger` or `user`",
    },
    "source_progress": {
        "source_partition": "value of the source partition as text; null in the pipeline's own row",
        "max_event_time": "greatest event time so far",
        "last_arrival": "newest arrival so far",
        "idle": "whether the source partition no longer holds the watermark back",
        "unfinished_tick_start": "start of the tick that the slice's end cuts",
        "watermark": "the pipeline's watermark; in its own row alone",
        "clock": "the virtual clock; in the pipeline's own row alone",
        "collected": "up to where the lineage has collected windows; in the pipeline's own row alone",
        "carried_watermark": "greatest watermark that its rows carried, where rows carry watermarks",
    },
    "overrides": {
        "row_hash": "hash of the row's key, source partition, order column and both times",
        "arrival_time": "the arrival by which restatements take the row in",
        "reason": "reason of the override",
        "at": "when the override was made",
        "true_arrival": "the arrival in the source",
    },
}
