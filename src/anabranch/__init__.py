"""Delta Lake tables for PySpark, with row-level concurrency and nothing added to Spark's classpath."""

__version__ = "0.1.0"
