"""The import hook: PySpark's modules are wrapped as they are loaded, and `delta` is a module of anabranch.

Neither this module nor those that it imports at its top import PySpark: it runs during the import of PySpark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from anabranch.auto import contexts, delta_modules, enabled_sessions

WATCHED: dict[str, Callable[[Any], None]] = {
    "pyspark.core.context": contexts.watch_contexts,
    "pyspark.sql.session": enabled_sessions.watch_sessions,
    "pyspark.sql.connect.session": enabled_sessions.watch_connect_sessions,
}
"""The function that is called with a module once it is loaded, by the module's name."""


def install() -> None:
    """Have all later sessions of this process enable themselves. Calling it again changes nothing."""
    if any(isinstance(finder, AutoFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, AutoFinder())
    for name, watch in WATCHED.items():
        if name in sys.modules:
            watch(sys.modules[name])


class AutoFinder:
    """The first of all finders, which leaves all modules but its own to the others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for `delta` and for the modules that are watched; None for all others."""
        if name == "delta":
            return delta_modules.top_spec(self._spec_of_others(name, path, target))
        if name.startswith("delta."):
            return delta_modules.spec_below(name)
        watch = WATCHED.get(name)
        spec = self._spec_of_others(name, path, target) if watch is not None else None
        if watch is None or spec is None or spec.loader is None:
            return None
        spec.loader = _WatchingLoader(spec.loader, watch)
        return spec

    def _spec_of_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None


class _WatchingLoader(Loader):
    """Loads a module by another loader, restores that loader on it, and then calls `watch` with the module."""

    def __init__(self, loader: Any, watch: Callable[[Any], None]) -> None:
        self._loader = loader
        self._watch = watch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._watch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
