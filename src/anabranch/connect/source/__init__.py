"""The format `delta`, for every kind of session."""

from anabranch.connect.python_source.registration import register

__all__ = ["register"]
