"""The format `delta`, for every kind of session."""

from anabranch.connect.source.registration import register

__all__ = ["register"]
