"""Calling a library through its Python binding: both bindings give a status first, then what the function gives."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hostdoctor.bandwidth.api import Fault, fault


class Binding:
    """The functions of a library; each raises Fault where it fails."""

    def __init__(self, module: ModuleType, package: str, not_loaded: Callable[[RuntimeError, str], Fault]) -> None:
        """Keep what is needed for calls.

        Args:
            module: the binding.
            package: that it belongs to, for messages.
            not_loaded: what it means that a function, by its name, could not be loaded.
        """
        self.module = module
        self._package = package
        self._not_loaded = not_loaded

    def __call__(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  (each gives something else)
        """Call a function; nothing, a value, or several. After an error they would mean nothing."""
        try:
            status, *values = getattr(self.module, name)(*arguments)
        except AttributeError as error:
            raise Fault("no-library", f"the package {self._package} is too old: it has no {name}") from error
        except RuntimeError as error:
            raise self._not_loaded(error, name) from error
        except (KeyError, ValueError) as error:  # the number of an error that the binding does not know
            raise Fault("other", f"{name} failed with an error that {self._package} does not know: {error}") from error
        if int(status):
            raise fault(int(status), status.name, name)
        return values[0] if len(values) == 1 else values
