"""One case with all its settings as one word, for `sidestream replay`."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from functools import lru_cache

from sidestream.harness.errors import UsageError
from sidestream.harness.run.settings import Settings
from sidestream.scenarios import token as scenario_token
from sidestream.scenarios.scenario import Scenario

_PREFIX = "ss1."
_LEFT_OUT = ("launches",)
"""Settings that say where to write, not what to run."""


def encode(settings: Settings, scenario: Scenario) -> str:
    """Return the token of a case: letters, digits, '-', '_' and dots."""
    return f"{_PREFIX}{_packed(settings)}.{scenario_token.encode(scenario)}"


@lru_cache(maxsize=8)
def _packed(settings: Settings) -> str:
    """Return the part of a token that all cases of a run share."""
    fields = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.name not in _LEFT_OUT
        and getattr(settings, field.name) != field.default
    }
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(zlib.compress(text, 9)).decode().rstrip("=")


def decode(token: str) -> tuple[Settings, Scenario]:
    """Return the settings and the scenario of a token.

    A bare scenario token gives the default settings.

    Raises:
        UsageError: not a token, a damaged one, or one of another version.
    """
    if not token.startswith(_PREFIX):
        return Settings(), scenario_token.decode(token)
    packed, _, scenario = token.removeprefix(_PREFIX).partition(".")
    try:
        raw = zlib.decompress(
            base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        )
        fields = json.loads(raw)
        known = {f.name: f.default for f in dataclasses.fields(Settings)}
        for name, value in fields.items():
            default = known[name]
            if name in _LEFT_OUT or type(value) is not type(default):
                raise TypeError(name)
        settings = Settings(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise UsageError("replay token is damaged or of another version") from error
    return settings, scenario_token.decode(scenario)


def command(settings: Settings, scenario: Scenario) -> str:
    """Return the one command that runs the case again."""
    return f"sidestream replay {encode(settings, scenario)}"
