"""The runs of a lineage: their figures one by one and as series."""
