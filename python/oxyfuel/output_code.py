"""Compiled graphs as AOTAutograd keeps them: in its caches as bytes, in the process as executables."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode

from oxyfuel.executable import Executable
from oxyfuel.extern import ExternCall
from oxyfuel.reports import GraphReport, publish
from oxyfuel.timing import watch


@dataclasses.dataclass
class CompiledGraph(OutputCode):
    """One graph, compiled."""

    program: bytes
    argument_count: int
    positions: list[int]
    constants: list[torch.Tensor]
    outputs: list[tuple[Any, ...]]
    externs: list[ExternCall]
    report: GraphReport
    has_effects: bool
    executable: Any = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._boxed_call = True
        self.load()

    def load(self) -> None:
        self.executable = Executable(
            self.program,
            self.argument_count,
            self.positions,
            self.constants,
            self.outputs,
            [call.specification() for call in self.externs],
        )
        publish(self.report, self)
        watch(self)

    def __call__(self, inputs: Any) -> Any:
        return self.executable(inputs)

    def prepare_for_serialization(self) -> None:
        """Called on a copy that is about to be pickled."""
        unnamed = [call.name for call in self.externs if not call.is_picklable]
        if unnamed:
            raise BypassAOTAutogradCache(f"steps that call Python objects: {', '.join(unnamed)}")
        # AOTAutograd passes the tokens of effects in the process that compiled the graph only.
        if self.has_effects:
            raise BypassAOTAutogradCache("operators with effects")
        self.executable = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        if self.executable is None:
            self.load()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


@dataclasses.dataclass
class EagerGraph(OutputCode):
    """A graph that PyTorch runs, operator by operator."""

    module: Any
    report: GraphReport

    def __post_init__(self) -> None:
        self._boxed_call = True
        publish(self.report, self)

    def __call__(self, inputs: Any) -> Any:
        arguments = list(inputs)
        inputs.clear()
        return self.module(*arguments)

    def prepare_for_serialization(self) -> None:
        raise BypassAOTAutogradCache("the graph runs in PyTorch")

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        pass

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


@dataclasses.dataclass
class WatchedGraph(OutputCode):
    """Another one, for one process: `before_call` sees the inputs of each call first."""

    graph: OutputCode
    before_call: Callable[[list[Any]], None]

    def __post_init__(self) -> None:
        self._boxed_call = True

    def __call__(self, inputs: Any) -> Any:
        self.before_call(list(inputs))
        return self.graph(inputs)

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        pass

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass
