"""Running a function through the compiler with each of its ATen graphs, and the tensors that each gets, at hand.

`oxyfuel.verify` and `oxyfuel reduce` are built on this.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from oxyfuel.arguments import NOTHING_KNOWN, Arguments
from oxyfuel.backend import backend, compile_dynamo_graph, compile_graph, compile_native
from oxyfuel.options import Settings, make_settings
from oxyfuel.output_code import WatchedGraph

TORCH_COMPILE_KEYWORDS = ("dynamic", "fullgraph", "mode")
OUR_FAILURE = "oxyfuel failed: "
"""How a fallback begins that is a bug of ours."""


class OursFailedError(Exception):
    """What eager does without complaint raised in our compiler or in its program."""


@dataclasses.dataclass
class Call:
    """One call of an ATen graph, before it runs."""

    module: fx.GraphModule
    examples: Sequence[Any]
    kind: str
    settings: Settings
    inputs: list[Any]
    failure: str
    """What our compiler failed with; empty when it did not."""

    def run_ours(self, module: fx.GraphModule) -> list[Any]:
        """Results of another graph of the same inputs as we compile it. Raises OursFailedError."""
        inputs = self.fresh_inputs()
        try:
            compiled = compile_native(module, self.examples, self.settings, self.kind, NOTHING_KNOWN)
            return list(compiled(inputs))
        except Exception as error:
            raise OursFailedError(f"{type(error).__name__}: {error}") from error

    def fresh_inputs(self) -> list[Any]:
        """Copies, in the same strides, of the tensors that the graph writes to, and the others themselves."""
        written = mutated_arguments(self.module)
        return [
            torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)
            if position in written
            else value
            for position, value in enumerate(self.inputs)
        ]


def mutated_arguments(module: fx.GraphModule) -> set[int]:
    """Positions of the arguments that the graph writes to."""
    positions = {node: position for position, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    return {
        positions[node.args[0]]
        for node in module.graph.nodes
        if node.target is torch.ops.aten.copy_.default and node.args[0] in positions
    }


def compile_watched(
    function: Callable[..., Any], watch: Callable[[Call], None], compile_options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """`function`, compiled afresh and without caches; `watch` sees each call of each of its ATen graphs."""
    options = dict(compile_options or {})
    keywords = {name: options.pop(name) for name in TORCH_COMPILE_KEYWORDS if name in options}

    def compile_aten(
        module: fx.GraphModule, examples: Sequence[Any], *, settings: Settings, kind: str, arguments: Arguments
    ) -> Any:
        native: Any = compile_graph(module, examples, settings=settings, kind=kind, arguments=arguments)
        fallback = native.report.fallback
        if fallback and not fallback.startswith(OUR_FAILURE):
            return native  # nothing of ours runs
        failure = fallback.removeprefix(OUR_FAILURE)

        def before_call(inputs: list[Any]) -> None:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                watch(Call(module, examples, kind, settings, inputs, failure))

        return WatchedGraph(native, before_call)

    @functools.wraps(backend)  # by which the tracing of recurrent layers knows it for ours
    def watched_backend(module: fx.GraphModule, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
        settings = make_settings({**given.get("options", {}), "cache": False, "strict": False}, given.get("mode"))
        return compile_dynamo_graph(module, example_inputs, settings, compile_aten)

    torch.compiler.reset()
    return torch.compile(function, backend=watched_backend, options=options, **keywords)
