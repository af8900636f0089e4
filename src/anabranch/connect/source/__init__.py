"""The format `delta`, for every kind of session."""

from anabranch.connect.python_source.delta_source import register

__all__ = ["register"]
