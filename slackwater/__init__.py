"""The front door: what a user's file imports, `from slackwater import Pipeline, DeltaSource, agg, expect,
TumblingEventTimeWindows`.

Names are those of `slackwater.pipelines`, `slackwater.sinks`, `slackwater.windowing` and
`slackwater.inspection.sql.engine_views`, imported when one of them is first asked for:
`slackwater.args`, which DAG files import, needs the standard library alone. `from slackwater import *` brings
all of them but the views, which need Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slackwater.inspection.sql.engine_views import *  # noqa: F403
    from slackwater.pipelines import *  # noqa: F403 - exactly the names of its __all__
    from slackwater.sinks import *  # noqa: F403
    from slackwater.windowing import *  # noqa: F403

_ROOMS = ("slackwater.pipelines", "slackwater.sinks", "slackwater.windowing")
# A room that imports pyarrow is imported for its own names alone.
_VIEWS = "slackwater.inspection.sql.engine_views"
_NAMES_OF_VIEWS = frozenset({"polars_views", "spark_views"})


def __getattr__(name: str) -> Any:
    if name in _NAMES_OF_VIEWS:
        return getattr(import_module(_VIEWS), name)
    if name == "__all__":  # of `from slackwater import *`
        return sorted(set(__dir__()) - _NAMES_OF_VIEWS)
    if not name.startswith("_"):
        for module in map(import_module, _ROOMS):
            if name in module.__all__:
                return getattr(module, name)
    from slackwater.errors import did_you_mean

    ways_out = did_you_mean(name, __dir__()) or f"it has {', '.join(__dir__())}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {ways_out}", name=name, obj=None)


def __dir__() -> list[str]:
    names = {name for module in map(import_module, _ROOMS) for name in module.__all__}
    return sorted(names | _NAMES_OF_VIEWS)
