"""Lowering: one function per instruction family turns PTX into bytecode rows."""
