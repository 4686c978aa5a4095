"""The other side of `watchdog.py`: a program that imports nothing of this project.

It starts in a few milliseconds. Lines of JSON on its input arm it (`label`, `seconds`,
`file`), name a launch (`kernel`), or disarm it (an empty object).
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import IO, Any

KEPT = 8
"""Launches that are told."""


def watch(parent: int, source: IO[bytes]) -> None:
    """Serve one parent until it closes the pipe, or until its time is up."""
    armed: dict[str, Any] = {}
    kernels: list[str] = []
    until, rest = 0.0, b""
    while True:
        wait = max(0.0, until - time.monotonic()) if armed else None
        ready, _, _ = select.select([source], [], [], wait)
        if not ready:
            end(parent, armed, kernels[-KEPT:])
            return
        data = os.read(source.fileno(), 65536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "kernel" in message:
                kernels.append(message["kernel"])
                continue
            armed, kernels = message, []
            until = time.monotonic() + message.get("seconds", 0.0)


def end(parent: int, armed: dict[str, Any], kernels: list[str]) -> None:
    """Write what hung, whole or not at all, and end the parent."""
    scratch = armed["file"] + ".part"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump({**armed, "kernels": kernels}, file)
    os.replace(scratch, armed["file"])
    sys.stderr.write(
        f"\nsidestream: {armed['label']} did not end within {armed['seconds']:g} s; "
        f"last launches: {', '.join(kernels) or 'none seen'}; "
        f"ending process {parent}\n"
    )
    sys.stderr.flush()
    os.kill(parent, signal.SIGKILL)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.stdin.buffer)
