"""The order in which late elements are processed: by arrival, order column and hash, as every engine has it;
ties only inside a key matter.

The same order as `slackwater.jobs.engines.rows.element_order.in_order`, which sorts all rows of a range.
"""

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.families import Part, Setting
from slackwater.jobs.engines.rows.element_order import in_order
from slackwater.windowing.columnar.columns import Longs

_KEY = "__key_number"


def in_order_of_arrival(setting: Setting, part: Part) -> tuple[Longs, pa.Table]:
    """(keys, rows) of `part` in the order in which elements are processed."""
    rows = in_order(setting.pipeline, part.rows.append_column(_KEY, pa.array(part.keys)))
    return np.asarray(rows.column(_KEY)), rows
