"""nn.LSTM, nn.GRU and nn.RNN.

Dynamo leaves these modules alone unless a global setting says otherwise; while it traces for our backend it need not. In
inference the call becomes one operator of our own, so that AOTAutograd does not unroll it by its length.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._C import DispatchKey
from torch._dynamo import config
from torch._dynamo.variables.builder import VariableBuilder
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from oxyfuel.dynamo import is_backend

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def trace_recurrent_modules(ours: Callable[..., Any]) -> None:
    """Lets Dynamo trace these modules while it compiles for the backend `ours`."""
    wrap_module = VariableBuilder.wrap_module
    if getattr(wrap_module, "_oxyfuel", False):
        return

    @functools.wraps(wrap_module)
    def wrap(self: Any, value: torch.nn.Module) -> Any:
        if isinstance(value, torch.nn.RNNBase) and is_backend(self.tx.output.compiler_fn, ours):
            with config.patch(allow_rnn=True):
                return wrap_module(self, value)
        return wrap_module(self, value)

    wrap._oxyfuel = True  # type: ignore[attr-defined]
    VariableBuilder.wrap_module = wrap


def _outputs(
    x: torch.Tensor, hidden: list[torch.Tensor], layers: int, bidirectional: bool, batch_first: bool
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Empty results of the shapes and strides that eager gives."""
    directions = 2 if bidirectional else 1
    size = hidden[0].shape[-1]
    if batch_first:
        y = x.new_empty((x.shape[1], x.shape[0], directions * size)).transpose(0, 1)
    else:
        y = x.new_empty((x.shape[0], x.shape[1], directions * size))
    batch = x.shape[0] if batch_first else x.shape[1]
    return y, [h.new_empty((layers * directions, batch, h.shape[-1])) for h in hidden]


@torch.library.custom_op("oxyfuel::lstm", mutates_args=())
def lstm(
    x: torch.Tensor,
    hidden: list[torch.Tensor],
    parameters: list[torch.Tensor],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """torch.lstm without dropout."""
    y, h, c = torch.lstm(x, hidden, parameters, has_biases, layers, 0.0, False, bidirectional, batch_first)
    return y.clone(), h.clone(), c.clone()


@lstm.register_fake
def _(
    x: torch.Tensor,
    hidden: list[torch.Tensor],
    parameters: list[torch.Tensor],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    y, (h, c) = _outputs(x, hidden, layers, bidirectional, batch_first)
    return y, h, c


@torch.library.custom_op("oxyfuel::rnn", mutates_args=())
def rnn(
    x: torch.Tensor,
    hidden: torch.Tensor,
    parameters: list[torch.Tensor],
    kind: str,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch.gru, torch.rnn_tanh or torch.rnn_relu without dropout."""
    run = getattr(torch, kind)
    y, h = run(x, hidden, parameters, has_biases, layers, 0.0, False, bidirectional, batch_first)
    return y.clone(), h.clone()


@rnn.register_fake
def _(
    x: torch.Tensor,
    hidden: torch.Tensor,
    parameters: list[torch.Tensor],
    kind: str,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    y, (h,) = _outputs(x, [hidden], layers, bidirectional, batch_first)
    return y, h


KINDS: dict[Any, str] = {
    torch.lstm: "lstm",
    torch.gru: "gru",
    torch.rnn_tanh: "rnn_tanh",
    torch.rnn_relu: "rnn_relu",
}


ATEN: dict[str, Any] = {kind: getattr(torch.ops.aten, kind).input for kind in GATES}
KINDS |= {overload: kind for kind, overload in ATEN.items()}  # as exported programs spell them


def _know_shapes(kind: str, overload: Any) -> None:
    """Lets Dynamo learn the shapes of a layer without going through its steps, which would fix their number."""
    for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
        stepwise = overload.py_kernels.get(key)
        if stepwise is None or getattr(stepwise, "_oxyfuel", False):
            continue

        @functools.wraps(stepwise)
        def shapes(x: Any, hidden: Any, parameters: Any, *rest: Any, stepwise: Any = stepwise) -> Any:
            tensors = (x, *(hidden if kind == "lstm" else (hidden,)), *parameters)
            is_asked_for_shapes = isinstance(x, FakeTensor) and get_proxy_mode() is None
            needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
            if not is_asked_for_shapes or needs_gradient or len(rest) != 6:
                return stepwise(x, hidden, parameters, *rest)
            _, layers, _, _, bidirectional, batch_first = rest
            y, states = _outputs(x, hidden if kind == "lstm" else [hidden], layers, bidirectional, batch_first)
            return y, *states

        shapes._oxyfuel = True  # type: ignore[attr-defined]
        overload.py_kernels[key] = shapes
    overload._dispatch_cache.clear()


for _kind, _overload in ATEN.items():
    _know_shapes(_kind, _overload)


def has_recurrence(module: fx.GraphModule) -> bool:
    return any(node.op == "call_function" and node.target in KINDS for node in module.graph.nodes)


def keep_whole(module: fx.GraphModule) -> None:
    """Puts our operators in the place of recurrent calls that need no gradient."""
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target not in KINDS or len(node.args) != 9:
            continue
        x, hidden, parameters, has_biases, layers, dropout, train, bidirectional, batch_first = node.args
        is_packed = isinstance(hidden, fx.Node) and isinstance(parameters, fx.Node)
        if is_packed or (train and dropout) or len(node.args[2]) % layers:
            continue
        kind = KINDS[node.target]
        rest = (has_biases, layers, bidirectional, batch_first)
        if kind == "lstm":
            node.args = (x, list(hidden), list(parameters), *rest)
            node.target = torch.ops.oxyfuel.lstm.default
        else:
            node.args = (x, hidden, list(parameters), kind, *rest)
            node.target = torch.ops.oxyfuel.rnn.default
    module.recompile()
