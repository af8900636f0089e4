"""`anabranch run`: runs a script, a module or a line of code as `python` does, with sessions that know Delta."""

from __future__ import annotations

import builtins
import code
import dataclasses
import enum
import importlib.util
import io
import os
import pkgutil
import platform
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from anabranch import __version__
from anabranch.auto import site_file
from anabranch.auto.import_hook import install
from anabranch.errors.arguments import InvalidArgumentError

if TYPE_CHECKING:
    from rich.console import Console


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


# `anabranch shell`: an interactive Python with a session.


def start_shell(settings: Sequence[str], *, plain: bool) -> None:
    """Make a session with `settings`, each `key=value`, and start IPython, or Python's own shell."""
    parsed = dict(_parsed(setting) for setting in settings)
    install()
    names = _names(parsed)
    banner = _banner(names["spark"])
    if not plain and importlib.util.find_spec("IPython") is not None:
        _ipython(names, banner)
    else:
        _python(names, banner)


def _parsed(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not key or not equals:
        raise InvalidArgumentError(argument="--conf", value=setting, problem="it must be KEY=VALUE")
    return key, value


def _names(settings: dict[str, str]) -> dict[str, Any]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, so arguments are checked first

    import anabranch  # noqa: PLC0415 - as above
    from anabranch.tables import DeltaTable  # noqa: PLC0415 - as above

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("anabranch shell")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return {"spark": builder.getOrCreate(), "DeltaTable": DeltaTable, "anabranch": anabranch}


def _banner(spark: Any) -> str:
    return (
        f"anabranch {__version__}, Spark {spark.version}, Python {platform.python_version()}.\n"
        "`spark` is a session that knows Delta; DeltaTable and anabranch are imported."
    )


def _ipython(names: dict[str, Any], banner: str) -> None:
    ipython: Any = importlib.import_module("IPython")
    config: Any = importlib.import_module("traitlets.config").Config()
    config.TerminalInteractiveShell.banner1 = f"{banner}\n"
    ipython.start_ipython(argv=[], user_ns=names, config=config)


def _python(names: dict[str, Any], banner: str) -> None:
    main = {"__name__": "__main__", "__doc__": None, **names}
    hook = getattr(sys, "__interactivehook__", None)
    if hook is not None:
        hook()  # completion by Tab, and the history of earlier sessions
    startup = os.environ.get("PYTHONSTARTUP")
    if startup and Path(startup).is_file():
        exec(compile(Path(startup).read_bytes(), startup, "exec"), main)  # noqa: S102 - the user's, as `python` does
    code.interact(banner, local=main, exitmsg="")


# `anabranch auto`: the switch for a whole environment.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The state of the switch."""

    is_on: bool
    files: tuple[str, ...]
    """The files that switch it on: in this environment, and in other folders of packages that this Python reads."""
    path: str
    """The path of this environment's file, whether or not it exists."""
    off_for_this_process: bool
    changed: bool

    def document(self) -> dict[str, Any]:
        return {
            "on": self.is_on,
            "files": list(self.files),
            "path": self.path,
            "python": sys.executable,
            "offByEnvironment": self.off_for_this_process,
            "changed": self.changed,
        }

    def print_to(self, out: Console) -> None:
        if self.is_on:
            out.print(f"On for {sys.executable}: each Spark session knows Delta from its start, `delta` is anabranch.")
            for path in self.files:
                out.print(f"By {path}", soft_wrap=True)  # on one line, since users copy it
            out.print(f"`anabranch auto off` undoes it; {site_file.SWITCH}=0 leaves one process out.")
        else:
            out.print(f"Off for {sys.executable}: there is no {self.path}", soft_wrap=True)
        if self.is_on and self.off_for_this_process:
            out.print(f"{site_file.SWITCH}=0 is set here: processes started from here are left out.")


def turn(position: Literal["on", "off", "status"]) -> Switch:
    """Switch on or off, or neither for "status". Returns the state after it."""
    file = site_file.of_this_python()
    existed = file.is_there
    if position == "on":
        file.write()
    elif position == "off":
        file.remove()
    files = dict.fromkeys([*([file] if file.is_there else []), *site_file.seen_by_this_python()])
    return Switch(
        is_on=bool(files),
        files=tuple(str(seen.path) for seen in files),
        path=str(file.path),
        off_for_this_process=os.environ.get(site_file.SWITCH) == "0",
        changed=existed != file.is_there,
    )
