"""State in RocksDB (Flink: RocksDBKeyedStateBackend): the back end, its column families, the layout of keys
and the bytes of values.
"""
