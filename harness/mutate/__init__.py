"""Mutation of synchronisation: which barriers, fences and waits carry load."""
