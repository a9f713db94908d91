"""State in RocksDB (Flink: RocksDBKeyedStateBackend): back end, column families, bytes of keys and values."""
