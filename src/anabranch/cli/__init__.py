import anabranch.cli.startup  # noqa: F401 - before any module that needs a newer PySpark than is installed
