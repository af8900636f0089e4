"""The format `delta`, for every kind of session."""

from anabranch.datasource.registration import register

__all__ = ["register"]
