"""The command `oxyfuel`: one file a command, app.py lists them, console.py has what they share."""

from oxyfuel.cli.app import main

__all__ = ["main"]
