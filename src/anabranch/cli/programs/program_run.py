"""`anabranch run`: runs a script, a module or a line of code as `python` does, with sessions that know Delta."""

from __future__ import annotations

import builtins
import dataclasses
import enum
import importlib.util
import io
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import NoReturn

from anabranch.auto.import_hook import install


class Kind(enum.Enum):
    """How the command line names a program, as for Python."""

    SCRIPT = "script"
    MODULE = "-m"
    CODE = "-c"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run."""

    kind: Kind
    name: str
    """Path of a script, `-` for standard input, name of a module, or the code itself."""
    arguments: tuple[str, ...]


def program_of(words: Sequence[str]) -> Program | None:
    """The program in the arguments of `anabranch run`, with its own arguments; None where they name none."""
    match [*words]:
        case ["--", *rest] if rest:
            return program_of(rest) if rest[0] != "--" else None
        case ["-m" | "-c" as option, name, *rest]:
            return Program(kind=Kind(option), name=name, arguments=tuple(rest))
        case [word, *rest] if word[:2] in {"-m", "-c"} and len(word) > 2:
            return Program(kind=Kind(word[:2]), name=word[2:], arguments=tuple(rest))
        case [word, *rest] if word == "-" or not word.startswith("-"):
            return Program(kind=Kind.SCRIPT, name=word, arguments=tuple(rest))
    return None


def run_program(program: Program) -> None:
    """Run it as `__main__` of this process. Its exceptions, also `SystemExit`, are not caught."""
    install()
    previous_hook = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
        frames = _without_our_frames(frames)
        previous_hook(kind, error.with_traceback(frames), frames)

    sys.excepthook = hook
    _execute(program)


def _execute(program: Program) -> None:
    main, code = _LOADERS[program.kind](program)
    sys.modules["__main__"] = main
    exec(code, vars(main))  # noqa: S102 - the user's own program


def _without_our_frames(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on, as Python would show it."""
    frame = frames
    while frame is not None and frame.tb_frame.f_code is not _execute.__code__:
        frame = frame.tb_next
    if frame is None:
        return frames
    while frame is not None and frame.tb_frame.f_code.co_filename == __file__:
        frame = frame.tb_next
    return frame


def _script(program: Program) -> tuple[ModuleType, CodeType]:
    sys.argv = [program.name, *program.arguments]
    if program.name == "-":
        main, code = _code(dataclasses.replace(program, name=sys.stdin.read()), called="<stdin>")
        main.__file__ = "<stdin>"
        return main, code
    path = os.path.abspath(program.name)
    if pkgutil.get_importer(path) is not None:  # a folder or an archive
        _set_first_import_path(path)
        spec = PathFinder.find_spec("__main__", [path])
        if spec is None:
            _fail(f"can't find '__main__' module in {program.name!r}", exit_code=1)
        return _main_of(spec)
    _set_first_import_path(os.path.dirname(os.path.realpath(path)))
    try:
        with io.open_code(path) as file:
            code = pkgutil.read_code(file)  # a .pyc
        source = Path(path).read_bytes()
    except OSError as error:
        _fail(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", exit_code=2)
    main = _new_main()
    main.__file__ = path
    main.__loader__ = SourceFileLoader("__main__", path)
    return main, code or compile(source, path, "exec", dont_inherit=True)


def _module(program: Program) -> tuple[ModuleType, CodeType]:
    sys.argv = ["-m", *program.arguments]
    _set_first_import_path(os.getcwd())
    try:
        spec = importlib.util.find_spec(program.name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{program.name}.__main__")
            if spec is None:
                _fail(f"{program.name!r} is a package without __main__ and cannot be run", exit_code=1)
    except (ModuleNotFoundError, ValueError) as error:
        _fail(f"cannot find the module {program.name!r}: {error}", exit_code=1)
    if spec is None:
        _fail(f"No module named {program.name}", exit_code=1)
    sys.argv[0] = spec.origin or program.name
    return _main_of(spec)


def _code(program: Program, *, called: str = "<string>") -> tuple[ModuleType, CodeType]:
    sys.argv = ["-" if called == "<stdin>" else "-c", *program.arguments]
    _set_first_import_path("")
    return _new_main(), compile(program.name, called, "exec", dont_inherit=True)


_LOADERS = {Kind.SCRIPT: _script, Kind.MODULE: _module, Kind.CODE: _code}


def _set_first_import_path(folder: str) -> None:
    """Import from `folder` first, instead of from the folder of the program `anabranch`."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _main_of(spec: ModuleSpec) -> tuple[ModuleType, CodeType]:
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code is not None else None
    if code is None:
        _fail(f"{spec.name} has no code to run", exit_code=1)
    main = _new_main()
    main.__spec__, main.__loader__, main.__package__ = spec, spec.loader, spec.parent
    main.__file__ = spec.origin
    vars(main)["__cached__"] = spec.cached
    return main, code


def _new_main() -> ModuleType:
    main = ModuleType("__main__")
    vars(main).update(__builtins__=builtins, __annotations__={})
    return main


def _fail(problem: str, *, exit_code: int) -> NoReturn:
    sys.stderr.write(f"anabranch run: {problem}\n")
    raise SystemExit(exit_code)
