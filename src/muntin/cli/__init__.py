"""The command line: a file for each command, or for those alike; heavy imports wait for its run."""

import gc
import logging
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

from muntin.cli.stopping import end_at_once, stop_spark
from muntin.cli.tables import coloured
from muntin.errors import OS_REMEDIES

app = typer.Typer(
    name="muntin",
    help="Summaries of a stream, pane by pane: exact where memory permits, bounded where not.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    "run", "serve", "ledger", "index", "capacity", "check", "init", "demo",
    "produce", "simulate", "doctor", "reproduce",
)  # fmt: skip
for command in COMMANDS:
    import_module(f"muntin.cli.{command}").register(app)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from muntin import __version__

        typer.echo(f"muntin {__version__}")
        raise typer.Exit


ONLY_ASK = ("query", "tables", "rejected")
"""Commands that read a ledger, print, and end: most of their time is that of imports."""


_NUMBA_SETTINGS = Path(".numba_config.yaml")


class _NotNeeded:
    """Left out where only a ledger is asked, though it is installed.

    Arrow imports pandas when it makes its first array, to know a Series if it is given one, and
    Numba cffi and SciPy, to know their functions: as long as half a question, which has none. And
    Numba imports YAML for a file of settings that hardly anybody has.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name in ("pandas", "cffi", "scipy") or (name == "yaml" and not _NUMBA_SETTINGS.exists()):
            raise ModuleNotFoundError(name)


def _one_line_is_enough() -> None:
    """What fails in Spark ends in a line of ours: PySpark and Py4J log all of Java's trace first,
    as JSON, and by the root logger, which then shows whatever else is logged."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)


def command_line() -> None:
    """`muntin` in a shell: `main` in a process of its own."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: else a ledger may be opened under its number
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if sys.argv[1:2] and sys.argv[1] in ONLY_ASK:
        _ask_and_leave()
    _one_line_is_enough()
    try:
        main()
    finally:
        stop_spark()  # else Java and this process end at once, and each complains of the other


def _ask_and_leave() -> NoReturn:
    """A command that only asks, without what Python does for those that live longer.

    Hundreds of modules are imported without looking for garbage among them, and left to the
    system at the end: to take them apart one by one takes as long as to answer.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's: their start costs, none is used
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # looks through all there is
    sys.meta_path.insert(0, _NotNeeded())
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    os._exit(max(code, _flush()))


def _flush() -> int:
    """Write what is still to be written; the exit status, 1 where that cannot be."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):  # nobody reads on; closed
            pass
        except OSError as problem:
            os.write(2, f"error: {_text_of(problem)}\n".encode())
            return 1
    return 0


def _text_of(problem: OSError) -> str:
    """What the system has refused, in a line."""
    place = f"{problem.filename}: " if problem.filename else "output: "
    return f"{place}{problem.strerror}; {OS_REMEDIES[problem.errno or 0]}"


def _run() -> None:
    """Run the command. After Ctrl-C whatever it fails with is that: typer says nothing then, and of
    a module that was being imported others go on with a half."""
    came = False

    def on_ctrl_c(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        if _is_importing(frame):
            end_at_once(number)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, on_ctrl_c)
    try:
        app()
    except (Exception, SystemExit) as end:
        if not came or (isinstance(end, SystemExit) and not end.code):
            raise
        typer.echo("\nstopped; what was committed stays", err=True)
        sys.exit(128 + signal.SIGINT)
    finally:
        if signal.getsignal(signal.SIGINT) is on_ctrl_c:  # not where nothing is to be stopped now
            signal.signal(signal.SIGINT, before)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether an exception here would leave half a module, or be lost: Python raises nothing out of
    the callbacks by which it forgets the locks of modules, and would go on."""
    while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def main() -> None:
    """Run the command line; errors of ours are one short message, without a trace."""
    from muntin.errors import MuntinError

    try:
        _run()
    except MuntinError as problem:
        sys.stdout.flush()
        typer.echo(coloured("error: ", "red") + str(problem), err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()  # `muntin query ... | head` is no error
        sys.exit(0)
    except OSError as problem:
        if problem.errno not in OS_REMEDIES:
            raise
        sys.stderr.write(f"error: {_text_of(problem)}\n")
        if not problem.filename:  # what is left would be tried again at the end, and told again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
