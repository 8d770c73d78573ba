"""The FX graph that AOTAutograd makes, as Graph IR.

An operator that has a rule (src/ops) becomes nodes; any other, and one whose rule declines, becomes an extern step that calls
PyTorch. What cannot even be that raises UnsupportedError, and the whole graph runs in PyTorch.
"""

import dataclasses
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch._prims_common import is_contiguous_or_false
from torch.utils import _pytree as pytree

from oxyfuel import _C
from oxyfuel.arguments import NOTHING_KNOWN, Arguments
from oxyfuel.dynamo import OUTER_FRAME
from oxyfuel.extern import ExternCall, IntegerSlot, TensorSlot
from oxyfuel.symbols import SymbolTable, expression_of

aten = torch.ops.aten

Operator = torch._ops.OpOverload
"""One overload, such as aten.add.Tensor."""

# Their results claim to be of float32 when they are traced.
QUANTISED = re.compile(
    r"aten\.(_make_per|_empty(_per_channel)?_affine|quantize_per|fake_quant.*_quantized)|quantized\."
)

DTYPES = {
    torch.bool: _C.DType.bool,
    torch.uint8: _C.DType.u8,
    torch.int8: _C.DType.i8,
    torch.int16: _C.DType.i16,
    torch.int32: _C.DType.i32,
    torch.int64: _C.DType.i64,
    torch.float16: _C.DType.f16,
    torch.bfloat16: _C.DType.bf16,
    torch.float32: _C.DType.f32,
    torch.float64: _C.DType.f64,
    torch.complex64: _C.DType.c64,
    torch.complex128: _C.DType.c128,
    torch.uint16: _C.DType.u16,
    torch.uint32: _C.DType.u32,
    torch.uint64: _C.DType.u64,
}

NOTHING: tuple[Any, list[Any]] = (_C.DType.f32, [])
"""Stands where an overload returns no tensor; its type means nothing."""

SAME = {"aten.detach.default", "aten.alias.default", "aten.lift.default"}
"""Give their operand as it is."""

CHECKED_BY_GUARDS = {
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "aten._assert_tensor_metadata.default",
}
"""Say what Dynamo's guards or shape inference have made sure of."""

LOOKS_AT_STORAGE = {
    "aten.as_strided.default",
    "aten.as_strided_copy.default",
    "aten.view.dtype",
    "aten.view_copy.dtype",
}
"""Their rules ask for the strides of operands."""


@dataclasses.dataclass
class Declined:
    """An operator that runs in PyTorch, and why."""

    target: str
    reason: str
    location: str


@dataclasses.dataclass
class Imported:
    """A graph, and how its arguments and results belong to those of the FX graph."""

    graph: Any
    arguments: list[tuple[bool, int]] = dataclasses.field(default_factory=list)
    """Of the program, in order: (is an integer, index among the graph's inputs or symbols)."""
    positions: list[int] = dataclasses.field(default_factory=list)
    """Of each of these among the FX graph's arguments; those behind them are `constants`."""
    argument_count: int = 0
    constants: list[torch.Tensor] = dataclasses.field(default_factory=list)
    outputs: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    externs: list[ExternCall] = dataclasses.field(default_factory=list)
    declined: list[Declined] = dataclasses.field(default_factory=list)
    node_count: int = 0
    """Operators of the FX graph that compute something."""
    has_effects: bool = False


@dataclasses.dataclass
class Call:
    """What an extern step calls, and the fake value of its result."""

    target: Any
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    value: Any
    has_effect: bool = False


class Importer:
    """Walks one FX graph."""

    def __init__(
        self,
        module: fx.GraphModule,
        examples: Sequence[Any],
        *,
        known: Arguments = NOTHING_KNOWN,
        refused: Iterable[str] = (),
        declined: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.module = module
        self.examples = examples
        self.known = known
        self.refused = frozenset(refused)
        self.declined = declined
        self.number = -1
        self.graph = _C.Graph("main")
        self.symbols = SymbolTable(self.graph)
        self.result = Imported(self.graph)
        self.values: dict[fx.Node, Any] = {}
        self.placeholders: dict[fx.Node, int] = {}
        self.inputs: list[Any] = []
        self.mutated: dict[fx.Node, fx.Node] = {}
        self.tokens: set[Any] = set()
        self.asserted: set[Any] = set()
        """Size symbols of which the program asserts something."""
        self.program_outputs: dict[tuple[Any, ...], int] = {}
        self.output_count = 0
        self.sharing: dict[int, set[tuple[Any, ...]]] = {}
        """Results, by the storage that they have in eager."""
        self.whole: dict[int, fx.Node] = {}
        """The result that is all of a storage; others that lie there are made as views of it."""

    def run(self) -> Imported:
        nodes = list(self.module.graph.nodes)
        placeholders = self.module.graph.find_nodes(op="placeholder")
        self.tokens = {node.args[0] for node in nodes if node.target is torch.ops.higher_order.with_effects}
        self.result.has_effects = bool(self.tokens)
        self.asserted = {symbol for node in nodes if is_assertion(node) for symbol in condition_of(node).free_symbols}
        self.result.argument_count = len(placeholders)
        self.declare_symbols(placeholders)
        for position, node in enumerate(placeholders):
            self.placeholder(node, position)
        for self.number, node in enumerate(nodes):
            if node.op == "get_attr":
                self.values[node] = self.attribute(node)
            elif node.op == "call_function":
                self.values[node] = self.call(node)
            elif node.op == "output":
                self.output(node)
            elif node.op != "placeholder":
                raise _C.UnsupportedError(f"a node of kind {node.op} in the FX graph")
        self.add_constants()
        return self.result

    # Arguments -----------------------------------------------------------------------------------------------------

    def example(self, node: fx.Node, position: int) -> Any:
        """What stands for the argument: AOTAutograd's own example has the strides that the program will really see."""
        given = self.examples[position] if position < len(self.examples) else None
        value = node.meta.get("val", given)
        return given if isinstance(given, torch.Tensor) and isinstance(value, torch.Tensor) else value

    def declare_symbols(self, placeholders: list[fx.Node]) -> None:
        """Every size symbol gets its value from an integer argument or from a size or stride of a tensor argument.

        In backward graphs an argument may be a product of symbols that no argument gives by themselves: then the whole
        product is a symbol of the graph.
        """
        integers: list[Any] = []
        extents: list[Any] = []
        for position, node in enumerate(placeholders):
            value = self.example(node, position)
            if isinstance(value, torch.SymInt) and not value.node.is_nested_int():
                self.symbols.see(value)
                integers.append(expression_of(value))
            elif isinstance(value, torch.Tensor) and value.layout == torch.strided:
                for size in (*value.shape, *value.stride()):
                    if isinstance(size, torch.SymInt):
                        self.symbols.see(size)
                        extents.append(expression_of(size))
        for expression in sorted(integers, key=lambda e: not e.is_Symbol) + [e for e in extents if e.is_Symbol]:
            if not expression.is_Integer and not (not expression.is_Symbol and self.symbols.is_known(expression)):
                self.symbols.define(expression)
        for expression in extents:
            if not expression.is_Integer and not self.symbols.is_known(expression):
                self.symbols.define(expression)

    def placeholder(self, node: fx.Node, position: int) -> None:
        self.placeholders[node] = position
        value = None if node in self.tokens else self.example(node, position)
        if isinstance(value, torch.Tensor):
            dtype = self.check_tensor(value, f"argument {self.known.name(position) or node.name}", is_given=True)
            strides = self.symbols.sizes(value.stride())
            is_static = position in self.known.static
            made = self.graph.add_input(dtype, self.symbols.sizes(value.shape), strides, node.name, is_static)
            self.values[node] = made
            self.result.arguments.append((False, len(self.inputs)))
            self.result.positions.append(position)
            self.inputs.append(made)
        elif isinstance(value, torch.SymInt):
            if value.node.is_nested_int():  # stands for a list of sizes: nothing can be computed from it
                self.values[node] = value
                return
            expression = expression_of(value)
            if expression in self.symbols.indices:
                self.result.arguments.append((True, self.symbols.indices[expression]))
                self.result.positions.append(position)
            self.values[node] = self.symbols.convert(expression)
        else:
            self.values[node] = value

    def check_tensor(self, value: torch.Tensor, what: str, *, is_given: bool = False) -> Any:
        """Its element type; UnsupportedError for tensors that are not plain memory of the CPU.

        Values of a program hold what they say: a conjugate that eager would leave for later is computed. Only of
        tensors that are given the memory may hold something else.
        """
        if value.device.type != "cpu":
            raise self.refuse(f"{what} is on the device {value.device}, not on the CPU", value)
        if value.layout != torch.strided:
            raise self.refuse(f"{what} is sparse", value, "to_dense() outside of the compiled function")
        if is_given and (value.is_conj() or value.is_neg()):
            hint = "resolve_conj().resolve_neg() outside of the compiled function"
            raise self.refuse(f"{what} is a conjugate or negative that PyTorch has not computed yet", value, hint)
        dtype = DTYPES.get(value.dtype)
        if dtype is None:
            raise self.refuse(f"{what} has elements of a type that oxyfuel does not compile", value)
        return dtype

    @staticmethod
    def refuse(what: str, value: torch.Tensor, instead: str = "") -> _C.UnsupportedError:
        found = f"{value.dtype}{[*map(str, value.shape)]} on {value.device}, {value.layout}".replace("'", "")
        lines = [what, f"found  {found}", "so     PyTorch runs this graph"]
        return _C.UnsupportedError("\n  ".join(lines + [f"or     {instead}"] * bool(instead)))

    def attribute(self, node: fx.Node) -> Any:
        value: Any = operator.attrgetter(str(node.target))(self.module)
        if not isinstance(value, torch.Tensor):
            return value  # a graph that a higher-order operator calls
        dtype = self.check_tensor(value, f"constant {node.target}", is_given=True)
        made = self.graph.add_input(dtype, list(value.shape), list(value.stride()), str(node.target), True)
        self.result.constants.append(value)
        return made

    def add_constants(self) -> None:
        for i in range(len(self.result.constants)):
            self.result.arguments.append((False, len(self.inputs) + i))
            self.result.positions.append(self.result.argument_count + i)

    # Operators -----------------------------------------------------------------------------------------------------

    def call(self, node: fx.Node) -> Any:
        target: Any = node.target
        value = node.meta.get("val")
        if target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        name = name_of(target)
        if name in CHECKED_BY_GUARDS:
            return None
        if is_assertion(node):
            return self.assertion(node)
        if isinstance(value, (torch.SymInt, torch.SymBool)) and not node.meta.get("unbacked_bindings"):
            return self.symbols.convert(expression_of(value))
        if isinstance(value, (int, float, bool)) and not isinstance(target, torch._ops.OpOverload):
            return value
        self.result.node_count += 1
        if name == "aten.copy_.default" and node.args[0] in self.placeholders:
            return self.mutate(node)
        if name in SAME:
            return self.values[node.args[0]]
        location = location_of(node)
        if target is torch.ops.higher_order.with_effects:
            return self.with_effects(node, location)
        if not isinstance(target, torch._ops.OpOverload):
            return self.extern(node, name, location, "it is no plain operator")
        if name in self.refused:
            return self.extern(node, name, location, "the option `extern` names it")
        if self.number in self.declined:
            return self.extern(node, name, location, self.declined[self.number])
        if target._schema.is_mutable and not name.startswith("aten.copy_"):
            return self.mutating_call(node, name, location)
        try:
            made = self.native(node, target, name, value, location)
        except _C.UnsupportedError as declined:
            return self.extern(node, name, location, str(declined))
        return self.extern(node, name, location, "it has no rule") if made is None else made

    def native(self, node: fx.Node, target: Any, name: str, value: Any, location: str) -> Any:
        """The results as the operator's rule builds them; None without a rule."""
        if name not in rules():
            return None
        if name == "aten._local_scalar_dense.default":
            return None
        leaves, tree = pytree.tree_flatten(value)
        types: list[tuple[Any, list[Any]]] = []
        strides: list[list[Any]] = []
        for leaf in leaves:
            if leaf is None:
                types.append(NOTHING)
                strides.append([])
            elif isinstance(leaf, torch.Tensor):
                types.append((self.check_tensor(leaf, "its result"), self.symbols.sizes(leaf.shape)))
                strides.append(self.symbols.sizes(leaf.stride()))
            else:
                return None
        arguments = [self.argument(argument) for argument in in_schema_order(target, node)]
        known = self.operand_strides(node) if name in LOOKS_AT_STORAGE else ()
        made: Any = self.graph.import_node(name, arguments, types, strides, location, known, self.number)
        if made is None:
            return None
        return made[0] if isinstance(value, torch.Tensor) else pytree.tree_unflatten(made, tree)

    def operand_strides(self, node: fx.Node) -> list[tuple[Any, list[Any]]]:
        known = []
        for operand in node.all_input_nodes:
            value, made = operand.meta.get("val"), self.values[operand]
            # Offsets of as_strided count from the start of the storage, our operands from their own first element.
            if isinstance(value, torch.Tensor) and isinstance(made, _C.Value) and not value.storage_offset():
                known.append((made, self.symbols.sizes(value.stride())))
        return known

    def argument(self, argument: Any) -> Any:
        """An argument as a rule takes it."""
        kind = type(argument)
        if kind is fx.Node:
            return self.values[argument]
        if kind in PLAIN:
            return argument
        if isinstance(argument, (list, tuple)):
            return [self.argument(item) for item in argument]
        if kind is torch.dtype:
            if argument not in DTYPES:
                raise _C.UnsupportedError(f"elements of type {argument}")
            return DTYPES[argument]
        if kind is torch.device:
            if argument.type != "cpu":
                raise _C.UnsupportedError(f"the device {argument}")
            return None
        if kind in (torch.layout, torch.memory_format):
            return None
        if kind is torch.SymInt:
            return self.symbols.size(argument)
        raise _C.UnsupportedError(f"an argument of type {kind.__name__}")

    def mutate(self, node: fx.Node) -> Any:
        """The program's last write to an argument."""
        target, source = node.args[0], node.args[1]
        assert isinstance(target, fx.Node)
        made = self.values[source] if isinstance(source, fx.Node) else None
        destination, value = self.values[target], node.meta["val"]
        if not isinstance(made, _C.Value) or made.type != destination.type:
            kind = (DTYPES[value.dtype], self.symbols.sizes(value.shape))
            strides = self.symbols.sizes(value.stride())
            arguments = [destination, self.argument(source), False]
            copy: Any = self.graph.import_node("aten.copy.default", arguments, [kind], [strides], location_of(node))
            made = copy[0]
        self.graph.add_mutation(destination, made)
        self.mutated[target] = node
        return destination

    def assertion(self, node: fx.Node) -> None:
        found = self.symbols.unchecked(condition_of(node))
        if isinstance(found, _C.Expr) and found.constant is not None:
            found = found.constant
        if not isinstance(found, _C.Expr):
            if not found:
                raise _C.UnsupportedError("an assertion that never holds")
            return
        call = ExternCall(
            target="python:assert_holds",
            arguments=(IntegerSlot(0, is_boolean=True), str(node.args[1])),
            keywords={},
            results=[],
            operand_ranks=[],
            result_ranks=[],
            result_orders=[],
            integer_count=1,
            binds=[],
            name="assert",
            location=location_of(node),
        )
        self.add_extern(call, [], [], [], [found.as_integer() if found.is_boolean else found], is_pure=False)

    # Steps that PyTorch runs ---------------------------------------------------------------------------------------

    def mutating_call(self, node: fx.Node, name: str, location: str) -> Any:
        raise _C.UnsupportedError(f"{name} writes to one of its operands inside of the graph, at {location}")

    def with_effects(self, node: fx.Node, location: str) -> Any:
        """An operator with effects, threaded by a token that is None when the program runs; steps keep their order."""
        target, arguments = node.args[1], node.args[2:]
        values = node.meta["val"][1:]
        value = values[0] if len(values) == 1 else tuple(values)
        call = Call(target, arguments, node.kwargs, value, has_effect=True)
        made = self.extern(node, name_of(target), location, "it has effects", call)
        return (None, *made) if len(values) > 1 else (None, made)

    def extern(self, node: fx.Node, name: str, location: str, reason: str, given: Call | None = None) -> Any:
        """A step that calls the node's target, or the call that is given."""
        if QUANTISED.match(name):
            raise _C.UnsupportedError(
                f"{name} may make a quantised tensor, whose type PyTorch does not tell to compilers"
            )
        called = given or Call(node.target, node.args, node.kwargs, node.meta.get("val", parts_of(node)))
        operands: list[Any] = []
        integers: list[Any] = []

        def open_up(argument: Any) -> Any:
            if isinstance(argument, fx.Node):
                opened = open_up(self.values[argument])
                is_tensor = isinstance(opened, TensorSlot)
                return TensorSlot(opened.index, is_contiguous(argument)) if is_tensor else opened
            if isinstance(argument, _C.Value):
                operands.append(argument)
                return TensorSlot(len(operands) - 1)
            if isinstance(argument, torch.SymInt):
                return open_up(self.symbols.size(argument))
            if isinstance(argument, _C.Expr):
                is_boolean = argument.is_boolean
                integers.append(argument.as_integer() if is_boolean else argument)
                return IntegerSlot(len(integers) - 1, is_boolean)
            if isinstance(argument, (list, tuple)):
                return (
                    type(argument)(map(open_up, argument)) if type(argument) is tuple else list(map(open_up, argument))
                )
            if isinstance(argument, dict):
                return {key: open_up(item) for key, item in argument.items()}
            return argument

        arguments = tuple(open_up(argument) for argument in called.arguments)
        keywords = {key: open_up(argument) for key, argument in called.keywords.items()}
        leaves, tree = pytree.tree_flatten(called.value)
        binds = self.bind_symbols(node)
        types, strides, results, orders = [], [], [], []
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                types.append((self.check_tensor(leaf, f"the result of {name}"), self.symbols.sizes(leaf.shape)))
                order, layout = self.extern_layout(leaf, bool(binds))
                strides.append(layout)
                orders.append(order)
                results.append(i)
            elif not isinstance(leaf, (torch.SymInt, torch.SymBool, int, bool, type(None))):
                raise _C.UnsupportedError(f"{name} gives a {type(leaf).__name__}")
        is_operator = isinstance(called.target, torch._ops.OpOverload)
        call = ExternCall(
            target=name if is_operator else called.target,
            arguments=arguments,
            keywords=keywords,
            results=results,
            operand_ranks=[operand.rank for operand in operands],
            result_ranks=[len(shape) for _, shape in types],
            result_orders=orders,
            integer_count=len(integers),
            binds=binds,
            name=name,
            location=location,
        )
        is_droppable = is_operator and not binds and not called.has_effect and is_pure(called.target)
        made = self.add_extern(call, operands, types, strides, integers, is_pure=is_droppable)
        self.result.declined.append(Declined(name, reason, location))
        filled: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                filled.append(made[len([x for x in filled if isinstance(x, _C.Value)])])
            elif isinstance(leaf, (torch.SymInt, torch.SymBool)):
                filled.append(self.symbols.convert(expression_of(leaf)))
            else:
                filled.append(leaf)
        return filled[0] if tree.is_leaf() else pytree.tree_unflatten(filled, tree)

    def extern_layout(self, value: torch.Tensor, has_new_sizes: bool) -> tuple[list[int], list[Any]]:
        """The order of the axes, outermost first, and the strides that kernels find.

        Results whose sizes are not known beforehand are dense: row-major, or column-major where eager has them so
        (`nonzero`).
        """
        strides = self.symbols.sizes(value.stride())
        rows_first = list(range(value.dim()))
        if not has_new_sizes:
            return rows_first, strides
        shape = self.symbols.sizes(value.shape)
        columns_first = rows_first[::-1]
        is_column_major = [*map(str, dense_strides(shape, columns_first))] == [*map(str, strides)]
        order = columns_first if is_column_major else rows_first
        return order, dense_strides(shape, order)

    def bind_symbols(self, node: fx.Node) -> list[tuple[int, Any]]:
        """The symbols whose values this node's result gives, each with its path in the result."""
        bindings = node.meta.get("unbacked_bindings")
        if not bindings:
            return []
        from torch.fx.experimental.symbolic_shapes import resolve_unbacked_bindings

        for leaf in pytree.tree_leaves(node.meta.get("val")):
            self.symbols.see(leaf)
            if isinstance(leaf, torch.Tensor):
                for size in leaf.shape:
                    self.symbols.see(size)
        if self.symbols.shape_env is not None:
            bindings = resolve_unbacked_bindings(self.symbols.shape_env, bindings) or bindings
        bound = [(self.symbols.define(symbol), path) for symbol, path in bindings.items()]
        twins = [
            (self.symbols.define_twin(symbol), path) for symbol, path in bindings.items() if symbol in self.asserted
        ]
        return bound + twins

    def add_extern(
        self,
        call: ExternCall,
        operands: list[Any],
        types: list[Any],
        strides: list[Any],
        integers: list[Any],
        *,
        is_pure: bool,
    ) -> list[Any]:
        self.result.externs.append(call)
        symbols = [symbol for symbol, _ in call.binds]
        number = len(self.result.externs) - 1
        made: list[Any] = self.graph.add_extern(
            number, call.name, operands, types, strides, integers, symbols, is_pure, call.location
        )
        return made

    # Results -------------------------------------------------------------------------------------------------------

    def output(self, node: fx.Node) -> None:
        (results,) = node.args
        assert isinstance(results, (list, tuple))
        storages = {}
        for placeholder, position in self.placeholders.items():
            value = self.example(placeholder, position)
            if isinstance(value, torch.Tensor) and placeholder not in self.mutated:
                seen = placeholder.meta.get("val")
                if isinstance(seen, torch.Tensor):
                    storages[seen.untyped_storage()._cdata] = placeholder
        for result in results:
            if isinstance(result, fx.Node) and isinstance(value := result.meta.get("val"), torch.Tensor):
                place = (result, *map(str, (*value.stride(), value.storage_offset())))
                self.sharing.setdefault(value.untyped_storage()._cdata, set()).add(place)
                if is_whole_storage(value) and isinstance(self.values.get(result), _C.Value):
                    self.whole.setdefault(value.untyped_storage()._cdata, result)
        for storage in storages:
            self.sharing.setdefault(storage, set()).update({("argument",), ("view of it",)})
        self.result.outputs = [self.recipe(result, storages) for result in results]

    def recipe(self, result: Any, storages: dict[int, fx.Node]) -> tuple[Any, ...]:
        """How one output is made: see OutputRecipe in src/python/executable.h."""
        if not isinstance(result, fx.Node):
            return ("constant", result)
        if result in self.tokens:
            return ("constant", None)
        if result in self.placeholders:
            return ("argument", self.placeholders[result])
        for target, copy in self.mutated.items():
            if copy is result:
                return ("argument", self.placeholders[target])
        made = self.values[result]
        if isinstance(made, _C.Expr):
            return self.integer_recipe(made)
        if not isinstance(made, _C.Value):
            return ("constant", made)
        value = result.meta["val"]
        self.check_tensor(value, "a result")
        if (view := self.view_recipe(value, storages)) is not None:
            return view
        storage = value.untyped_storage()._cdata
        if storage in storages and storages[storage].meta["val"].dtype != value.dtype:
            storage = id(result)  # a view of an argument as another type: AOTAutograd makes it from the argument
            self.sharing[storage] = set()
        if (shared := self.shared_recipe(result, storages)) is not None:
            return shared
        return ("result", self.program_output(made, value, storage))

    def program_output(self, made: Any, value: torch.Tensor, storage: int) -> int:
        """The number of the program's output for a result; one for all that are the same."""
        strides = self.symbols.sizes(value.stride())
        key = (id(made), storage, *map(str, strides))
        if key not in self.program_outputs:
            self.program_outputs[key] = self.add_output(self.apart(made, storage), strides)
        return self.program_outputs[key]

    def shared_recipe(self, result: fx.Node, storages: Mapping[int, fx.Node]) -> tuple[Any, ...] | None:
        """A view of another result, which is all of the memory that both have in eager."""
        value = result.meta["val"]
        storage = value.untyped_storage()._cdata
        base = self.whole.get(storage)
        if base is None or base is result or storage in storages or base in self.mutated.values():
            return None
        whole = base.meta["val"]
        layout = (*value.shape, *value.stride(), value.storage_offset())
        is_plain = not (value.is_conj() or value.is_neg() or whole.is_conj() or whole.is_neg())
        if value.dtype != whole.dtype or not is_plain or not all(type(number) is int for number in layout):
            return None
        index = self.program_output(self.values[base], whole, storage)
        return ("shared", index, list(value.shape), list(value.stride()), value.storage_offset())

    def apart(self, made: Any, storage: int) -> Any:
        """The value, as a copy where eager has it in memory that no other result shares.

        Passes drop copies of what is computed anyway; what stays is `x.clone()`, and `x * 1` of an argument.
        """
        is_views_base = storage in self.whole and ("argument",) not in self.sharing[storage]
        if (len(self.sharing[storage]) > 1 and not is_views_base) or made.is_extern:
            return made
        (copied,) = self.graph.add("copy", [made], {"dtype": made.dtype})
        return copied

    def integer_recipe(self, expression: Any) -> tuple[Any, ...]:
        for node, position in self.placeholders.items():
            if self.values[node] is expression:
                return ("argument", position)
        if expression.constant is not None and not expression.is_boolean:
            return ("constant", expression.constant)
        kind = "boolean" if expression.is_boolean else "integer"
        number = expression.as_integer() if expression.is_boolean else expression
        (made,) = self.graph.add("size_value", [], {"value": number})
        return (kind, self.add_output(made, []))

    def view_recipe(self, value: torch.Tensor, storages: dict[int, fx.Node]) -> tuple[Any, ...] | None:
        """A view of an argument needs no step, where its place is known beforehand."""
        base = storages.get(value.untyped_storage()._cdata)
        if base is None:
            return None
        whole = base.meta["val"]
        numbers = (*value.shape, *value.stride(), value.storage_offset(), whole.storage_offset())
        if value.dtype != whole.dtype or not all(type(number) is int for number in numbers):
            return None
        if value.is_conj() or value.is_neg():
            return None
        offset = value.storage_offset() - whole.storage_offset()
        return ("view", self.placeholders[base], list(value.shape), list(value.stride()), offset)

    def add_output(self, made: Any, strides: list[Any]) -> int:
        self.output_count += 1
        self.graph.add_output(made, strides)
        return self.output_count - 1


PLAIN = frozenset({int, float, bool, str, complex, type(None), torch.SymBool})


@cache
def rules() -> frozenset[str]:
    """The overloads that compile to our own code."""
    return frozenset(_C.rules())


@cache
def name_of(target: Any) -> str:
    """ "aten.add.Tensor" for an operator, the name of anything else."""
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


@cache
def schema_arguments(target: Any) -> tuple[tuple[str, bool, Any], ...]:
    """(name, whether it has to be named, default) of each argument."""
    return tuple((a.name, a.kwarg_only, a.default_value) for a in target._schema.arguments)


@cache
def is_pure(target: Any) -> bool:
    """Gives the same for the same operands and changes nothing: may be dropped when nobody uses it."""
    return (
        target.namespace in ("aten", "prims")
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and not name_of(target).startswith("aten._assert")
    )


def in_schema_order(target: Any, node: fx.Node) -> list[Any]:
    """All arguments of the call, defaults filled in."""
    arguments = schema_arguments(target)
    given = list(node.args)
    for name, _, default in arguments[len(given) :]:
        given.append(node.kwargs.get(name, default))
    return given


def is_assertion(node: fx.Node) -> bool:
    return node.target is torch.ops.aten._assert_scalar.default


def condition_of(assertion: fx.Node) -> Any:
    """The sympy expression of what is asserted."""
    condition = assertion.args[0]
    return expression_of(condition.meta["val"] if isinstance(condition, fx.Node) else condition)


def parts_of(node: fx.Node) -> tuple[Any, ...] | None:
    """The value of a node that has none, from those of its parts: AOTAutograd's partitioner makes such nodes around random
    operators that a checkpoint repeats."""
    parts = {user.args[1]: user.meta.get("val") for user in node.users if user.target is operator.getitem}
    return tuple(parts.get(i) for i in range(max(parts) + 1)) if parts else None


def is_whole_storage(value: torch.Tensor) -> bool:
    """Whether every element of the storage is one of the tensor's, and where is known beforehand."""
    if not all(type(number) is int for number in (*value.shape, *value.stride(), value.storage_offset())):
        return False
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride()))
    is_dense = value.numel() > 0 and span == value.numel() and value.storage_offset() == 0
    return is_dense and span * value.element_size() == value.untyped_storage().nbytes()


def is_contiguous(node: fx.Node) -> bool:
    """Whether the node's value is row-major in eager; False where that depends on sizes."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and is_contiguous_or_false(value)


def dense_strides(shape: list[Any], order: list[int]) -> list[Any]:
    """Of memory without gaps whose axes lie in this order, outermost first."""
    strides: list[Any] = [1] * len(shape)
    step: Any = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis]
    return strides


def location_of(node: fx.Node) -> str:
    """ "model.py:41 in forward": the innermost place in the user's program that the node comes from."""
    trace = node.meta.get("stack_trace")
    if not trace:
        return ""
    places = [line.strip() for line in trace.splitlines() if line.lstrip().startswith('File "')]
    parts = next((place.split(", ") for place in reversed(places) if OUTER_FRAME not in place), None)
    if parts is None or len(parts) < 3:
        return ""
    path, number, function = parts[0][6:-1], parts[1].removeprefix("line "), parts[2].removeprefix("in ")
    return f"{path.rsplit('/', 1)[-1]}:{number} in {function}"
