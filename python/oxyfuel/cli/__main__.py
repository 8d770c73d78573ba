"""`python -m oxyfuel.cli` is the command `oxyfuel`."""

from oxyfuel.cli.app import main

main()
