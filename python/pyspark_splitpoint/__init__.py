"""Spark finds the data source ``splitpoint`` here: it looks for ``DefaultSource`` in packages named ``pyspark_*``."""

from splitpoint.spark import DataSource as DefaultSource

__all__ = ["DefaultSource"]
