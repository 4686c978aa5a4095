"""Happens-before race detection: it watches a launch and changes none of it."""
