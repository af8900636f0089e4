"""Which engine a session asks for, told without importing one."""

from __future__ import annotations

ENGINE_SETTING = "spark.anabranch.engine"
"""`native` or `portable`; by default what the session allows."""
