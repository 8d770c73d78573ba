"""Runs a user's script in this process, as `python script.py` does."""

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from oxyfuel.cli.console import CommandError, ExitCode


def run_script(script: str, arguments: Sequence[str]) -> bool:
    """False when it failed: its traceback, without our own frames, then went to standard error.

    CommandError when there is no such file.
    """
    if not Path(script).is_file():
        raise CommandError(ExitCode.USAGE, f"no file is called {script!r}")
    before = sys.argv, sys.path[0]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        return left.code is None or left.code == 0
    except Exception as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != script:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames or error.__traceback__)
        return False
    finally:
        sys.argv, sys.path[0] = before
    return True
