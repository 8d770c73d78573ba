"""What commands share: exit codes, tables, JSON, and a line that says what goes on."""

import contextlib
import enum
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class ExitCode(enum.Enum):
    """What a command's exit code means. The shell's own: 130 after Ctrl-C."""

    DONE = 0
    WRONG = 1
    USAGE = 2
    SCRIPT = 3
    MISSING = 4

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.DONE: "done and all is right",
    ExitCode.WRONG: "done and something is not right",
    ExitCode.USAGE: "the command line is not understood",
    ExitCode.SCRIPT: "the program that was to be run failed",
    ExitCode.MISSING: "something that the command needs is missing",
}


class CommandError(Exception):
    """Ends a command: the message goes to standard error, `code` to the shell."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables: an object, or one a line and row.")]

output = Console()
if not output.is_terminal:
    output = Console(width=240)  # a line a row, for grep and files
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """One line of JSON on standard output."""
    print(json.dumps(value), flush=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", left: int = 1) -> None:
    """A table on standard output. The first `left` columns are texts, the others numbers."""
    table = Table(box=None, pad_edge=False, title=title or None, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    output.print(table, highlight=False)


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Says on standard error what goes on and for how long. The value shows the stage that it is called with.

    On a terminal one line is kept up to date, and goes away at the end; elsewhere each stage is a line.
    """
    start, stage, done = time.monotonic(), "starting", threading.Event()

    def text() -> str:
        return f"{title}: {stage} ({time.monotonic() - start:.0f} s)"

    if not errors.is_terminal:

        def write(new: str) -> None:
            nonlocal stage
            stage = new
            print(text(), file=errors.file, flush=True)

        yield write
        return

    with errors.status(text()) as status:

        def show(new: str) -> None:
            nonlocal stage
            stage = new
            status.update(text())

        def tick() -> None:
            while not done.wait(0.5):
                status.update(text())

        clock = threading.Thread(target=tick, daemon=True)
        clock.start()
        try:
            yield show
        finally:
            done.set()
            clock.join()
