"""Doubles the rows of a table as two compactions of delta-rs at one moment do. No assertions on what becomes
of it.
"""

from deltalake import DeltaTable

from slackwater.tables.delta.folder import Folder


def double(folder: Folder) -> int:
    """Compact the table from two handles of one version, and return how many rows stand there once more than
    before.
    """
    first, second = DeltaTable(folder.uri), DeltaTable(folder.uri)
    before = first.to_pyarrow_table().num_rows
    for handle in (first, second):
        handle.optimize.compact()
    return DeltaTable(folder.uri).to_pyarrow_table().num_rows - before
