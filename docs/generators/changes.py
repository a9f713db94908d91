"""What a change of each setting means for a lineage, from the rules that decide it before a run."""

from slackwater.runs.staging.evolution import RULES

MEANINGS = {
    "free": "nothing that is parked depends on them",
    "published": "only what is published: from here on, or of all by `slackwater publish NAME --results`",
    "converted": "what is parked is converted, and the change is noted among the run's checks",
    "from here on": "results come and go, and keep their definition: [a pipeline grows](grow.md)",
    "at a tick boundary": "only where a tick of both lengths ends",
    "refused": "what is parked cannot follow",
    "lasting": "not even a restatement can follow: rows of `published` have their identity by it",
}


def table(*, page: str) -> str:
    """Kind of change → settings."""
    settings: dict[str, list[str]] = {kind: [] for kind in MEANINGS}
    for name, kind in RULES.items():
        settings[kind].append(f"`{name}`")
    rows = [f"| {kind} | {MEANINGS[kind]} | {', '.join(names)} |" for kind, names in settings.items()]
    return "\n".join(["| a change is | | settings |", "|---|---|---|", *rows])
