"""Releases of packages other than the installed ones, each in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sidestream.harness.exec.build import cache_dir

TIMEOUT_S = 120


def folder(package: str, release: str) -> Path:
    """Return a folder with one release of a package, for `PYTHONPATH`.

    It is made once and kept in the user's cache; what the package needs is not
    installed with it. Skips the test where pip gets the release from nowhere.
    """
    kept = cache_dir() / "releases" / f"{package}-{release}"
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as made:
        target = Path(made) / "target"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        try:
            done = subprocess.run(
                [*command, "--target", str(target), f"{package}=={release}"],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"pip does not get {package} {release} in {TIMEOUT_S} s")
        if done.returncode:
            pytest.skip(f"pip gets no {package} {release}: {done.stderr[-200:]}")
        try:
            os.replace(target, kept)
        except OSError:  # another process made it meanwhile
            if not kept.is_dir():
                raise
    return kept
