"""Handlers of callbacks from Spark, one module for each kind."""
