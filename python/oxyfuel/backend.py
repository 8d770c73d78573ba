"""`torch.compile(model, backend="oxyfuel")`: PyTorch's entry point.

A call gets one Dynamo graph. AOTAutograd makes functional ATen graphs of it (inference, or forward and backward), each is
imported (importer.py), compiled, and kept in AOTAutograd's cache with our own salt.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import logging
import os
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch._inductor.output_code import OutputCode
from torch.utils._sympy.symbol import SymT, symbol_is_type

from oxyfuel import _C, autograd, cache, decompositions, dynamo, recompilation, rnn
from oxyfuel.arguments import NOTHING_KNOWN, Arguments, arguments_of
from oxyfuel.importer import Imported, Importer
from oxyfuel.options import Settings, cache_directory, make_settings
from oxyfuel.output_code import CompiledGraph, EagerGraph
from oxyfuel.reports import GraphReport
from oxyfuel.weights import watch_optimizers

log = logging.getLogger(__name__)


def backend(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles one Dynamo graph; see oxyfuel.options for `options` and `mode`."""
    return compile_dynamo_graph(module, example_inputs, make_settings(options, mode), compile_graph)


def compile_dynamo_graph(
    module: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings, compile_aten: Callable[..., OutputCode]
) -> Callable[..., Any]:
    """Makes ATen graphs of a Dynamo graph, each of which `compile_aten` compiles as `compile_graph` does."""
    use_cache = settings.cache and can_run_new_code()
    watch_optimizers()
    if settings.perf_map:
        _C.write_perf_map()
    arguments = arguments_of(module, example_inputs)
    with contextlib.ExitStack() as stack:
        if rnn.has_recurrence(module):
            if needs_gradient(example_inputs):
                # AOTAutograd takes oneDNN's recurrent layers for functions that save tensors, and fails.
                stack.enter_context(enable_python_dispatcher())
                stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
            else:
                rnn.keep_whole(module)
        stack.enter_context(torch.compiler.config.patch(cache_key_tag=salt(settings) + values_of_numbers()))
        stack.enter_context(
            functorch_config.patch(
                bundled_autograd_cache=use_cache,
                enable_autograd_cache=use_cache,
                force_non_lazy_backward_lowering=True,
            )
        )

        stack.enter_context(dynamo.without_code_generators())
        stack.enter_context(autograd.functions_of_ours())

        def compiler(kind: str) -> SerializableAOTDispatchCompiler:
            compile_kind = functools.partial(compile_aten, settings=settings, kind=kind, arguments=arguments)
            return SerializableAOTDispatchCompiler(OutputCode, compile_kind)

        # Made anew for each graph: AotAutograd wraps the compilers that it is given each time that it is called.
        return aot_autograd(
            fw_compiler=compiler("forward"),
            bw_compiler=compiler("backward"),
            inference_compiler=compiler("inference"),
            partition_fn=min_cut_rematerialization_partition,
            decompositions=decompositions.table(),
            keep_inference_input_mutations=True,
        )(module, example_inputs)


def compile_graph(
    module: fx.GraphModule,
    examples: Sequence[Any],
    *,
    settings: Settings,
    kind: str,
    arguments: Arguments = NOTHING_KNOWN,
) -> OutputCode:
    """One ATen graph. What Oxyfuel does not compile, and what it fails on, PyTorch runs."""
    if not can_run_new_code():
        return eager(module, kind, NO_NEW_CODE)
    try:
        return compile_native(module, examples, settings, kind, arguments)
    except _C.UnsupportedError as unsupported:
        log.info("oxyfuel: a graph runs in PyTorch: %s", unsupported)
        return eager(module, kind, str(unsupported))
    except Exception as error:
        if settings.strict:
            raise
        warn_once(error)
        return eager(module, kind, f"oxyfuel failed: {error}")


def compile_native(
    module: fx.GraphModule, examples: Sequence[Any], settings: Settings, kind: str, arguments: Arguments
) -> CompiledGraph:
    # Weights of a training graph change with every step: nothing is prepared from them.
    known = arguments.of_aten_graph(module)
    if kind != "inference" or not settings.static_weights:
        known = dataclasses.replace(known, static=frozenset())
    program: bytes | None = None
    declined: dict[int, str] = {}
    while program is None:  # each time around, at least one more operator runs in PyTorch
        imported = Importer(module, examples, known=known, refused=settings.extern, declined=declined).run()
        dump = stage_folder(settings.dump)
        program, details = _C.compile(imported.graph, compile_settings(settings, imported, dump))
        if program is None:
            if declined.keys() >= set(details["operations"]):
                raise _C.UnsupportedError(details["reason"])
            declined |= dict.fromkeys(details["operations"], details["reason"])
    if details["cache_problem"]:
        warn_of_cache(details["cache_problem"])
    cache.keeper.wrote(cache_directory(settings), details["kernels_generated"], settings.cache_limit << 20)
    report = GraphReport(
        kind=kind,
        operators=imported.node_count,
        declined=[(d.target, d.reason, d.location) for d in imported.declined],
        kernels=details["kernels"],
        remarks=details["remarks"],
        seconds=details["seconds"],
        contraction_flops=details["contraction_flops"],
        kernels_generated=details["kernels_generated"],
        kernels_cached=details["kernels_cached"],
        dump=dump,
    )
    return CompiledGraph(
        program=program,
        argument_count=imported.argument_count,
        positions=imported.positions,
        constants=imported.constants,
        outputs=imported.outputs,
        externs=imported.externs,
        report=report,
        has_effects=imported.has_effects,
    )


def stage_folder(parent: str) -> str:
    """A folder of its own for the stages of each graph: graph_0, graph_1, … below `parent`."""
    if not parent:
        return ""
    for number in itertools.count():
        folder = Path(parent, f"graph_{number}")
        try:
            folder.mkdir(parents=True)
            return str(folder)
        except FileExistsError:
            if not Path(parent).is_dir():
                raise
    raise AssertionError


def compile_settings(settings: Settings, imported: Imported, dump: str) -> Any:
    native = _C.CompileSettings()
    native.target = settings.target
    native.threads = settings.compile_threads or len(os.sched_getaffinity(0))
    native.verify = settings.verify
    native.scalar = settings.scalar
    native.dump_directory = dump
    native.cache_directory = cache_directory(settings)
    passes = _C.PassOptions()
    passes.verify = settings.verify
    passes.dump_directory = dump
    passes.fuel = settings.fuel
    passes.round_trip = settings.round_trip
    passes.fusion = settings.fusion
    for name in settings.skip:
        passes.skip(name)
    native.passes = passes
    for is_integer, index in imported.arguments:
        native.add_argument(is_integer, index)
    return native


def eager(module: fx.GraphModule, kind: str, reason: str) -> EagerGraph:
    operators = sum(node.op == "call_function" for node in module.graph.nodes)
    return EagerGraph(module, GraphReport(kind=kind, operators=operators, fallback=reason))


@functools.cache
def _warned() -> set[str]:
    return set()


def warn_once(error: Exception) -> None:
    """A bug of ours costs speed, not the user's program; one warning a process says so."""
    if _warned():
        return
    _warned().add(str(error))
    log.debug("%s", traceback.format_exc())
    warnings.warn(
        f"oxyfuel failed to compile a graph, which runs in PyTorch instead: {type(error).__name__}: {error}\n"
        "  or     OXYFUEL_STRICT=1 to see where; OXYFUEL_DUMP=<folder> writes what it was compiling",
        RuntimeWarning,
        stacklevel=2,
    )


@functools.cache
def can_run_new_code() -> bool:
    """Whether the system lets us. Where it does not, one warning says so, and all graphs run in PyTorch."""
    allowed: bool = _C.can_run_new_code()
    if not allowed:
        warnings.warn(
            f"oxyfuel: {NO_NEW_CODE}\n"
            "  so     all graphs run in PyTorch\n"
            "  or     a service without MemoryDenyWriteExecute, a policy that grants execmem",
            RuntimeWarning,
            stacklevel=2,
        )
    return allowed


NO_NEW_CODE = "this system does not let the process run code that it makes"


@functools.cache
def warn_of_cache(problem: str) -> None:
    """A cache that does not work costs time only. One warning a process, as one cause makes many problems."""
    if warn_of_cache.cache_info().currsize:
        return
    warnings.warn(
        f"oxyfuel: the cache of compiled kernels does not work as it should\n  found  {problem}\n"
        "  so     kernels are compiled afresh\n"
        "  or     OXYFUEL_CACHE_DIR=<another folder>; oxyfuel.cache.clear() removes what is there",
        RuntimeWarning,
        stacklevel=2,
    )


# Weights --------------------------------------------------------------------------------------------------------------


def needs_gradient(example_inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs
    )


# Cache ----------------------------------------------------------------------------------------------------------------


@functools.cache
def build_identity() -> str:
    """Differs between builds of the native module and between versions of these files."""
    text = hashlib.sha256()
    for path in (Path(_C.__file__), *sorted(Path(__file__).parent.glob("*.py"))):
        stat = path.stat()
        text.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return text.hexdigest()


def salt(settings: Settings) -> str:
    """Part of AOTAutograd's cache key, which knows of the graph but not of who compiles it, how and for which machine."""
    return "|".join(("oxyfuel", _C.version, str(_C.abi_version), build_identity(), _C.cpu_features(), settings.salt()))


def values_of_numbers() -> str:
    """The Python floats that TorchDynamo took for variables. AOTAutograd may take their values into its graph, and keeps no
    condition on them beside it in its cache."""
    context = TracingContext.try_get()
    shapes = context.fake_mode.shape_env if context and context.fake_mode else None
    values = shapes.backed_var_to_val.items() if shapes else ()
    return "".join(f"|{symbol}={value!r}" for symbol, value in values if symbol_is_type(symbol, SymT.FLOAT))


rnn.trace_recurrent_modules(backend)
dynamo.watch_recompiles(backend)
backend.reset = recompilation.clear  # type: ignore[attr-defined]  # PyTorch calls it in torch.compiler.reset()
