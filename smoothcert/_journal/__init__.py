"""Journals: evidence kept in a file, so that a run survives a kill and continues with the same bits."""
