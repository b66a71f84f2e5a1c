"""Runs as log records, spans and metrics."""
