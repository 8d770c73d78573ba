"""What a Dynamo graph tells of its arguments beside their values: which are weights, and what the user calls them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import PlainAOTInput

VARIABLE = re.compile(r"^[LG]\['(\w+)'\]")
ENTRY = re.compile(r"\._(?:modules|parameters|buffers)\['(\d+)'\]")
MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")


@dataclass(frozen=True)
class Arguments:
    """By position among the arguments of one graph.

    static  parameters and buffers, which mostly stay as they are from call to call; FSDP's do not
    names   in the user's program, such as "self.layers[0].weight"; "" where there is none
    """

    static: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()

    def name(self, position: int) -> str:
        return self.names[position] if position < len(self.names) else ""

    def of_aten_graph(self, module: fx.GraphModule) -> "Arguments":
        """The same for an ATen graph made of the Dynamo graph: it says of each argument where it came from."""
        origins = [node.meta.get("desc") for node in module.graph.find_nodes(op="placeholder")]
        places = [origin.idx if isinstance(origin, PlainAOTInput) else None for origin in origins]
        return Arguments(
            frozenset(position for position, place in enumerate(places) if place in self.static),
            tuple("" if place is None else self.name(place) for place in places),
        )


NOTHING_KNOWN = Arguments()


def arguments_of(module: fx.GraphModule, examples: Sequence[Any]) -> Arguments:
    """Of a Dynamo graph."""
    nodes = module.graph.find_nodes(op="placeholder")
    static = frozenset(
        position for position, (node, value) in enumerate(zip(nodes, examples)) if is_static(node, value)
    )
    return Arguments(static, tuple(map(name_of_source, nodes)))


def is_static(node: fx.Node, value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    source = getattr(node, "_dynamo_source", None)
    guard = getattr(source, "guard_source", None)
    guard = guard() if callable(guard) else guard
    if guard is not None and getattr(guard, "is_fsdp_module", lambda: False)():
        return False
    is_marked = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") is not None
    is_of_module = guard is not None and getattr(guard, "is_unspecialized_nn_module", lambda: False)()
    return isinstance(value, torch.nn.Parameter) or is_marked or is_of_module


def name_of_source(node: fx.Node) -> str:
    """Dynamo writes L['self']._modules['layers']._modules['0']._parameters['weight'] for self.layers[0].weight."""
    name = getattr(getattr(node, "_dynamo_source", None), "name", "")
    if not isinstance(name, str) or not VARIABLE.match(name):
        return ""
    return MEMBER.sub(r".\1", ENTRY.sub(r"[\1]", VARIABLE.sub(r"\1", name)))
