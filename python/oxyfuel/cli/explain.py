"""`oxyfuel explain`: what became of a model, as text, JSON or a page."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oxyfuel.cli import subject
from oxyfuel.cli.console import CommandError, ExitCode, Json, print_json, progress

if TYPE_CHECKING:
    from oxyfuel.explanation import Explanation


def explain(
    name: subject.Name,
    html: Annotated[Path | None, typer.Option(help="Write a page to this file instead.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Show kernels, what they fuse, times, roofline, memory, and what runs in PyTorch and why."""
    from oxyfuel.explanation import explain as explain_function

    with progress(name) as show:
        show("loading")
        found = subject.load(name)
        show("compiling and timing")
        explanation = explain_function(found.function, *found.arguments, compile_options=found.compile_options)
        explanation.title = name
    if html is not None:
        try:
            html.write_text(explanation.html())
        except OSError as error:
            raise CommandError(ExitCode.MISSING, f"cannot write {html}: {error.strerror}") from error
        print(html)
    elif as_json:
        print_json(to_json(explanation))
    else:
        print(explanation)


def to_json(explanation: "Explanation") -> dict[str, Any]:
    """The data of the explanation, and what follows from it; JSON has no infinity, which memory holds."""
    data = dataclasses.asdict(explanation)
    for graph, found in zip(explanation.graphs, data["graphs"]):
        found["seconds"] = graph.seconds
        for kernel, item in zip(graph.kernels, found["kernels"]):
            item["roofline_share"] = kernel.roofline_share
    levels = explanation.roofline.bandwidths
    data["roofline"]["bandwidths"] = [
        (name, None if holds == float("inf") else holds, speed) for name, holds, speed in levels
    ]
    return data
