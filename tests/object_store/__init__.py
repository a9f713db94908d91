"""Warehouse and source on an object store: a real S3 server, and a proxy that counts and disturbs."""
