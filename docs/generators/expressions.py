"""The functions that an expression may call, from the list that the parser keeps to."""

from slackwater.pipelines.expression_grammar import FUNCTIONS


def table(*, page: str) -> str:
    """What the functions are of → their names."""
    rows = [
        f"| {family} | {', '.join(f'`{name}`' for name in names.split())} |"
        for family, names in FUNCTIONS.items()
    ]
    return "\n".join(["| of | functions |", "|---|---|", *rows])
