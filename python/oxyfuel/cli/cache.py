"""`oxyfuel cache`: what the compiled kernels on disk take, and making them less."""

import re
from typing import Annotated

import typer

from oxyfuel.cli.console import CommandError, ExitCode, Json, output, print_json

app = typer.Typer(
    help="Show what compiled kernels take on disk; clear and prune them.",
    invoke_without_command=True,
    no_args_is_help=False,
)

SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse(text: str, units: dict[str, int], example: str) -> float:
    """A number with a unit, as in 500M or 7d. CommandError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]?)[bB]?", text.strip())
    if found is None or found[2].lower() not in units:
        known = ", ".join(unit.upper() if units is SIZES else unit for unit in units if unit)
        raise CommandError(
            ExitCode.USAGE, f"not understood: {text!r}\n  or     a number and one of {known}, like {example}"
        )
    return float(found[1]) * units[found[2].lower()]


def describe(files: int, size: int) -> str:
    return f"{files} kernels, {size / 1e6:.1f} MB"


@app.callback()
def show(context: typer.Context, as_json: Json = False) -> None:
    if context.invoked_subcommand is not None:
        return
    from oxyfuel import cache
    from oxyfuel.options import make_settings

    used, settings = cache.size(), make_settings()
    limit = settings.cache_limit << 20
    if as_json:
        print_json(
            {
                "folder": str(cache.directory()),
                "is_on": settings.cache,
                "files": used.files,
                "bytes": used.bytes,
                "max_bytes": limit,
            }
        )
        return
    most = f"at most {limit / 1e6:.0f} MB" if limit else "without a limit"
    state = "" if settings.cache else " (switched off)"
    output.print(
        f"{cache.directory()}{state}: {describe(used.files, used.bytes)}, {most}", markup=False, highlight=False
    )


@app.command()
def clear(as_json: Json = False) -> None:
    """Remove every kernel; programs compile them again when they need them."""
    from oxyfuel import cache

    report(cache.clear(), as_json)


@app.command()
def prune(
    max_size: Annotated[
        str, typer.Option(help="Remove the least recently used until so much is left, like 500M.")
    ] = "",
    max_age: Annotated[str, typer.Option(help="Remove what was not used for so long, like 7d.")] = "",
    as_json: Json = False,
) -> None:
    """Remove old kernels, or as many as a size asks for."""
    from oxyfuel import cache

    if not max_size and not max_age:
        raise CommandError(ExitCode.USAGE, "what to prune by is missing\n  or     --max-size 500M, --max-age 7d")
    gone = cache.prune(
        max_bytes=int(parse(max_size, SIZES, "500M")) if max_size else None,
        max_age=parse(max_age, AGES, "7d") if max_age else None,
    )
    report(gone, as_json)


def report(gone: "object", as_json: bool) -> None:
    from oxyfuel import cache

    assert isinstance(gone, cache.Usage)
    left = cache.size()
    if as_json:
        print_json({"removed_files": gone.files, "removed_bytes": gone.bytes, "files": left.files, "bytes": left.bytes})
    else:
        output.print(
            f"removed {describe(gone.files, gone.bytes)}; {describe(left.files, left.bytes)} are left", highlight=False
        )
