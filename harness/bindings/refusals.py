"""Calls of `cuda.bindings` that have no model, refused by their names.

Left as they are they would ask a driver that is not there and give its status. A
program that looks at no status would go on as if the call had been made.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

_CALL = re.compile(r"cu(da)?[A-Z]")


def refusals(tell: Callable[[str], NoReturn]) -> Iterator[tuple[object, str, object]]:
    """Yield (module, name, replacement) for every call of both interfaces.

    What has a model is put in place afterwards.

    Args:
        tell: Called with the name of each; raises.
    """
    if importlib.util.find_spec("cuda.bindings") is None:
        return
    for module in ("cuda.bindings.runtime", "cuda.bindings.driver"):
        owner = importlib.import_module(module)
        for name, call in tuple(vars(owner).items()):
            if _CALL.match(name) and callable(call) and not isinstance(call, type):
                yield owner, name, _refuse(call, f"{module}.{name}", tell)


def _refuse(
    real: Any, name: str, tell: Callable[[str], NoReturn]
) -> Callable[..., Any]:
    @functools.wraps(real)
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        tell(name)

    return refuse
