"""Forms of PTX ISA chapter "TensorCore 5th Generation Family Instructions"."""

from __future__ import annotations

from sidestream.harness.ptx.forms import Family

FAMILIES: tuple[Family, ...] = ()
