# Written by tools/gen_stubs.py (`make docs`): change src/python instead.
"""
Oxyfuel's compiler and runtime; the package `oxyfuel` is what users see.
"""

from collections.abc import Sequence
import enum

from typing_extensions import CapsuleType


version: str

abi_version: int

class DType(enum.Enum):
    """
    An element type; members are named as in IR text: `f32`, `bf16`, `i64`, …
    """

    bool = 0

    u8 = 1

    i8 = 2

    i16 = 3

    i32 = 4

    i64 = 5

    f16 = 6

    bf16 = 7

    f32 = 8

    f64 = 9

    c64 = 10

    c128 = 11

    u16 = 12

    u32 = 13

    u64 = 14

class Expr:
    """
    An integer or boolean expression over size symbols; lives as long as its graph.
    """

    def __add__(self, arg: object, /) -> Expr: ...

    def __radd__(self, arg: object, /) -> Expr: ...

    def __sub__(self, arg: object, /) -> Expr: ...

    def __rsub__(self, arg: object, /) -> Expr: ...

    def __mul__(self, arg: object, /) -> Expr: ...

    def __rmul__(self, arg: object, /) -> Expr: ...

    def __floordiv__(self, arg: object, /) -> Expr: ...

    def __rfloordiv__(self, arg: object, /) -> Expr: ...

    def __mod__(self, arg: object, /) -> Expr:
        """Rounds towards minus infinity, as Python does."""

    def __rmod__(self, arg: object, /) -> Expr: ...

    def __neg__(self) -> Expr: ...

    def truncated_div(self, arg: object, /) -> Expr: ...

    def minimum(self, arg: object, /) -> Expr: ...

    def maximum(self, arg: object, /) -> Expr: ...

    def equal(self, arg: object, /) -> Expr: ...

    def not_equal(self, arg: object, /) -> Expr: ...

    def less(self, arg: object, /) -> Expr: ...

    def less_equal(self, arg: object, /) -> Expr: ...

    def logical_and(self, arg: Expr, /) -> Expr: ...

    def logical_or(self, arg: Expr, /) -> Expr: ...

    def logical_not(self) -> Expr: ...

    def select(self, arg0: object, arg1: object, /) -> Expr: ...

    def as_integer(self) -> Expr:
        """A condition as 0 or 1."""

    @property
    def constant(self) -> int | None:
        """The value, when it is known."""

    @property
    def is_boolean(self) -> bool: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class Value:
    """A tensor in a graph."""

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> list[Expr]: ...

    @property
    def rank(self) -> int: ...

    @property
    def is_extern(self) -> bool: ...

    @property
    def type(self) -> str: ...

class Graph:
    """A program as operators on whole tensors; see src/ir/graph/graph.h."""

    def __init__(self, name: str = 'main') -> None: ...

    @staticmethod
    def parse(arg: str, /) -> Graph: ...

    def symbol(self, name: str, lower: int | None, upper: int | None, hint: int) -> Expr:
        """
        A new size symbol with lower <= value < upper; `hint` is a likely value, never a guard.
        """

    def integer(self, arg: int, /) -> Expr: ...

    def add_input(self, dtype: DType, shape: object, strides: object, name: str, is_static: bool) -> Value: ...

    def import_node(self, overload: str, arguments: object, types: object, strides: object, location: str, operand_strides: object = (), operation: int = -1) -> object:
        """
        Results of an ATen call (None for those that the overload returns as None), or None when there is no rule. Raises UnsupportedError when the rule declines.
        """

    def add_extern(self, id: int, target: str, operands: Sequence[Value], types: object, strides: object, integers: object, binds: Sequence[int], is_pure: bool, location: str) -> list: ...

    def add(self, op: str, operands: Sequence[Value], attributes: dict, location: str = '') -> list: ...

    def add_output(self, value: Value | None, strides: object | None = None) -> None: ...

    def add_mutation(self, arg0: Value, arg1: Value, /) -> None: ...

    def remove_dead(self) -> bool: ...

    def verify(self) -> None: ...

    @property
    def node_count(self) -> int: ...

    def __str__(self) -> str: ...

def rules() -> set:
    """The ATen overloads that compile to our own code."""

def operators() -> list:
    """
    (name, kind, doc, ulps) of each operator of Graph IR, in the order of the table.
    """

def can_run_new_code() -> bool:
    """Whether the system lets this process run code that it makes."""

def pass_names() -> list[str]:
    """Names of all passes, in no order."""

class PassOptions:
    def __init__(self) -> None: ...

    @staticmethod
    def from_environment() -> PassOptions: ...

    @property
    def verify(self) -> bool: ...

    @verify.setter
    def verify(self, arg: bool, /) -> None: ...

    @property
    def dump_directory(self) -> str: ...

    @dump_directory.setter
    def dump_directory(self, arg: str, /) -> None: ...

    @property
    def round_trip(self) -> bool: ...

    @round_trip.setter
    def round_trip(self, arg: bool, /) -> None: ...

    @property
    def fusion(self) -> bool: ...

    @fusion.setter
    def fusion(self, arg: bool, /) -> None: ...

    @property
    def fuel(self) -> int: ...

    @fuel.setter
    def fuel(self, arg: int, /) -> None: ...

    def skip(self, arg: str, /) -> None: ...

class CompileSettings:
    def __init__(self) -> None: ...

    @property
    def target(self) -> str: ...

    @target.setter
    def target(self, arg: str, /) -> None: ...

    @property
    def threads(self) -> int: ...

    @threads.setter
    def threads(self, arg: int, /) -> None: ...

    @property
    def verify(self) -> bool: ...

    @verify.setter
    def verify(self, arg: bool, /) -> None: ...

    @property
    def scalar(self) -> bool: ...

    @scalar.setter
    def scalar(self, arg: bool, /) -> None: ...

    @property
    def cache_directory(self) -> str: ...

    @cache_directory.setter
    def cache_directory(self, arg: str, /) -> None: ...

    @property
    def dump_directory(self) -> str: ...

    @dump_directory.setter
    def dump_directory(self, arg: str, /) -> None: ...

    @property
    def passes(self) -> PassOptions: ...

    @passes.setter
    def passes(self, arg: PassOptions, /) -> None: ...

    def add_argument(self, arg0: bool, arg1: int, /) -> None:
        """
        The next argument of the program: an input of the graph, or an integer that is a symbol of it.
        """

def compile(graph: Graph, settings: CompileSettings) -> tuple:
    """
    Compiles a graph, which is used up. Gives the program as bytes, and a report. Where a group of operators has no lowering: None, and the reason with the numbers of these operators (`operation` of import_node).
    """

def interpret_graph(text: str, inputs: Sequence[bytes]) -> list:
    """
    Results, row-major, of a graph without symbols by the interpreter of Graph IR; inputs are row-major too.
    """

def interpret_kernels(text: str, inputs: Sequence[bytes], settings: CompileSettings) -> list:
    """
    The same by the interpreter of Loop IR, from the kernels that `compile` makes; inputs are bytes in the strides of the graph.
    """

def attach(exchange: CapsuleType, library_folder: str, sample: object, get_num_threads: object) -> None:
    """
    Finds PyTorch's functions; `exchange` is torch.Tensor.__dlpack_c_exchange_api__, `sample` a tensor.
    """

def bridge_state() -> dict: ...

def attach_profiler(state: dict, range: object) -> None:
    """
    `state`: the variables of torch.autograd.profiler; `range`: torch._C._profiler._RecordFunctionFast.
    """

def record_steps(wanted: bool) -> None:
    """
    Calls add to the step times of their executables from now on, or no longer.
    """

def override_thread_limit(threads: int) -> None:
    """
    Lets calls have this many threads whatever the machine has, for tests; 0 undoes it.
    """

def bump_epoch() -> None:
    """
    Weights may have changed without their version counters: bind them again.
    """

class Executable:
    """A compiled program on PyTorch tensors; calls may come from any thread."""

    def __init__(self, program: bytes, argument_count: int, positions: Sequence[int], constants: list, outputs: list, externs: list) -> None: ...

    def __call__(self, arguments: list) -> list:
        """Empties the list of arguments; gives a list of results."""

    def step_times(self) -> list:
        """
        (kind, name, location, runs, nanoseconds, begin, end) of each step over the calls that were recorded.
        """

    def forget_step_times(self) -> None: ...

    def memory_map(self) -> tuple:
        """
        (bytes of the arena, buffers) at the sizes that were met last; a buffer: (kind, name, dtype, bytes, offset in the arena or -1, first step, last step).
        """

    def invalidate(self) -> None: ...

    def trim(self) -> None: ...

    @property
    def bind_count(self) -> int: ...

    @property
    def memory(self) -> tuple: ...

def cpu_features() -> str:
    """Instruction sets of this machine that code is made for."""

def machine() -> dict:
    """
    What code is made for: instruction sets, vector width, caches in bytes, and how many threads may run.
    """

def measure_fma_peak(vector_bits: int, threads: int) -> float:
    """Float32 operations a second of fused multiply-adds."""

def measure_read_bandwidth(bytes: int, threads: int) -> float:
    """Bytes a second that are read from a block of this size."""

def write_perf_map() -> None:
    """
    Kernels have their names in `perf report`: they are written to /tmp/perf-<process>.map.
    """

class CompileError(RuntimeError):
    """The user's program is at fault."""

class InternalError(RuntimeError):
    """A bug of Oxyfuel."""

class UnsupportedError(RuntimeError):
    """Something that Oxyfuel does not compile; PyTorch runs it."""
