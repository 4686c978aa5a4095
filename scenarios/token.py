"""A scenario as one word, for replay commands and reports.

The token holds the fields that differ from their defaults, so it stays valid when a
field is added and it needs no catalogue, trace or seed of a strategy to be read.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from typing import Any

from sidestream.harness.errors import ContractError, UsageError
from sidestream.scenarios.scenario import Scenario

_PREFIX = "sc1."


def encode(scenario: Scenario) -> str:
    """Return the token of `scenario`: letters, digits, '-', '_' and one dot."""
    fields = {
        field.name: getattr(scenario, field.name)
        for field in dataclasses.fields(scenario)
        if field.default is dataclasses.MISSING
        or getattr(scenario, field.name) != field.default
    }
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    packed = base64.urlsafe_b64encode(zlib.compress(text.encode(), 9))
    return _PREFIX + packed.decode().rstrip("=")


def decode(token: str) -> Scenario:
    """Return the scenario of `token`.

    Raises:
        UsageError: not a scenario token, a damaged one, or one of another version.
    """
    if not token.startswith(_PREFIX):
        raise UsageError(
            f"not a token: {token[:40]!r}; a finding's replay line and a report's "
            "cases have one"
        )
    body = token.removeprefix(_PREFIX)
    try:
        packed = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        fields: dict[str, Any] = json.loads(zlib.decompress(packed))
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        return Scenario(**fields)
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        if isinstance(error, ContractError):
            raise UsageError(f"scenario token: {error}") from error
        raise UsageError("scenario token is damaged or of another version") from error
