"""Refuses a Delta table with a feature or a property that our reads and writes can't bear, by its protocol
and its properties.

Files are read as they are: a deletion vector would bring deleted rows back, a mapped column would be null.
Commits only add and remove files: row ids, commit timestamps and clustering would be missing. A feature that
is not known to be harmless is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deltalake import DeltaTable

from slackwater.tables.errors import ForeignFeature

# Features that a protocol may list; those that a property or a column makes active are looked for there.
_BEARABLE_FEATURES = frozenset(
    {"appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants", "timestampNtz"}
)
# The first reader and writer versions that imply a feature which can't be borne.
_MAPPING_READER, _MAPPING_WRITER, _IDENTITY_WRITER, _FEATURES_READER, _FEATURES_WRITER = 2, 5, 6, 3, 7
# Properties that can't be borne with this value, and the feature that each makes active.
_REFUSED_VALUES: Mapping[str, tuple[str, str]] = {
    "delta.appendOnly": ("true", "appendOnly"),
    "delta.columnMapping.mode": ("name", "columnMapping"),
    "delta.enableDeletionVectors": ("true", "deletionVectors"),
    "delta.enableInCommitTimestamps": ("true", "inCommitTimestamp"),
    "delta.enableRowTracking": ("true", "rowTracking"),
}
_CONSTRAINT = "delta.constraints."


class UnbearableFeature(NamedTuple):
    """A feature by Delta's name, and the end of the ALTER TABLE statement by which Spark takes it off."""

    name: str
    command: str


def refuse_unbearable(uri: str, table: DeltaTable) -> None:
    features = list(unbearable_features(table))
    if features:
        raise unbearable(uri, features)


def unbearable(uri: str, features: Sequence[UnbearableFeature]) -> ForeignFeature:
    names = ", ".join(dict.fromkeys(feature.name for feature in features))
    statements = "; ".join(f"ALTER TABLE delta.`{uri}` {feature.command}" for feature in features)
    pipeline = uri.rstrip("/").split("/")[-2]
    return ForeignFeature(
        f"{uri}: somebody has given this table what Slackwater can't read or write rightly: {names}. Nothing "
        f"was changed. `slackwater publish {pipeline} --rebuild` takes it off a table of the pipeline "
        f"{pipeline}; of another table Spark takes it off (`{statements}`).",
        uri=uri,
        features=[feature.name for feature in features],
    )


def unbearable_features(table: DeltaTable) -> Iterator[UnbearableFeature]:
    """Features of the protocol, and active ones by properties, that can't be borne."""
    protocol, properties = table.protocol(), table.metadata().configuration
    names = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - _BEARABLE_FEATURES
    if protocol.min_reader_version == _MAPPING_READER or protocol.min_writer_version == _MAPPING_WRITER:
        names.add("columnMapping")
    if protocol.min_writer_version == _IDENTITY_WRITER:
        names.add("identityColumns")
    for name in sorted(names):
        yield UnbearableFeature(name, f"DROP FEATURE {name}")
    if protocol.min_reader_version > _FEATURES_READER or protocol.min_writer_version > _FEATURES_WRITER:
        version = f"protocol {protocol.min_reader_version}/{protocol.min_writer_version}"
        yield UnbearableFeature(version, f"-- {version}")
    for key, value in properties.items():
        refused_value, feature = _REFUSED_VALUES.get(key, ("", ""))
        if key.startswith(_CONSTRAINT):
            yield UnbearableFeature("checkConstraints", f"DROP CONSTRAINT {key.removeprefix(_CONSTRAINT)}")
        elif feature and feature not in names and value.lower() == refused_value:
            yield UnbearableFeature(feature, f"UNSET TBLPROPERTIES ('{key}')")


def is_borne_property(key: str, value: str) -> bool:
    return not key.startswith(_CONSTRAINT) and _REFUSED_VALUES.get(key, ("", ""))[0] != value.lower()
