"""Scenarios through implementations: calls, checks and reports, in many processes."""
