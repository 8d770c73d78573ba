"""PyTorch's symbolic sizes (sympy expressions over a ShapeEnv) as expressions of a graph.

Nothing here asks a SymInt for its value: that would install a guard and tie the program to one size.
"""

from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions as sizes

from oxyfuel import _C

Size = Any
"""An int, or an expression of the graph."""

UNBACKED_HINT = 32
"""What heuristics take for a size that is known only when the program runs."""


def expression_of(value: Any) -> Any:
    """The sympy expression of a SymInt, SymBool or SymFloat, or of a plain number."""
    return value.node.expr if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)) else sympy.sympify(value)


class SymbolTable:
    """Makes one graph symbol a size symbol of PyTorch, when an argument or a step gives its value."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.shape_env: Any = None
        self.count = 0
        self.known: dict[Any, Any] = {}
        """Symbols and, where their symbols are not all given, whole expressions: what an argument's size is called."""
        self.indices: dict[Any, int] = {}
        self.twins: dict[Any, Any] = {}
        self.cache: dict[Any, Size] = {}

    def see(self, value: Any) -> None:
        """Remembers where ranges and hints are to be found."""
        if self.shape_env is None and isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            self.shape_env = value.node.shape_env

    def define(self, expression: Any) -> int:
        """Makes a symbol that stands for `expression`, whose value the program gets; its index in the graph."""
        if expression in self.indices:
            return self.indices[expression]
        lower, upper = self.range_of(expression) if expression not in self.twins.values() else (None, None)
        name = str(expression) if expression.is_Symbol else f"n{self.count}"
        symbol = self.graph.symbol(name, lower, None if upper is None else upper + 1, self.hint_of(expression))
        self.known[expression] = symbol
        self.indices[expression] = self.count
        self.count += 1
        self.cache.clear()
        return self.indices[expression]

    def define_twin(self, symbol: Any) -> int:
        """Makes a second symbol for the same value, of which nothing is assumed. PyTorch narrows the range of a symbol to what
        the program asserts of it; the assertion itself has to be about this one."""
        return self.define(self.twins.setdefault(symbol, sympy.Dummy(f"{symbol}_unchecked", integer=True)))

    def unchecked(self, expression: Any) -> Any:
        """The expression, of twins where there are any."""
        return self.convert(expression.xreplace(self.twins))

    def range_of(self, expression: Any) -> tuple[int | None, int | None]:
        """Inclusive bounds, None where there are none."""
        if self.shape_env is None:
            return None, None
        try:
            bounds = self.shape_env.bound_sympy(expression)
            return _finite(bounds.lower), _finite(bounds.upper)
        except (TypeError, ValueError, AttributeError):
            return None, None

    def hint_of(self, expression: Any) -> int:
        if self.shape_env is None:
            return UNBACKED_HINT
        values = self.shape_env.backed_var_to_val
        hints = {symbol: values.get(symbol, UNBACKED_HINT) for symbol in expression.free_symbols}
        try:
            return int(expression.xreplace(hints))
        except (TypeError, ValueError):
            return UNBACKED_HINT

    def is_known(self, expression: Any) -> bool:
        return expression in self.known or all(symbol in self.known for symbol in expression.free_symbols)

    def size(self, value: Any) -> Size:
        """A size of a tensor, or another integer, as the graph knows it."""
        if type(value) is int:
            return value
        return self.convert(expression_of(value))

    def sizes(self, values: Iterable[Any]) -> list[Size]:
        return [value if type(value) is int else self.convert(expression_of(value)) for value in values]

    def convert(self, expression: Any) -> Size:
        found = self.cache.get(expression)
        if found is None:
            found = self._convert(self._with_whole_expressions(expression))
            self.cache[expression] = found
        return found

    def expression(self, expression: Any) -> Any:
        """The same, never a plain int."""
        size = self.convert(expression)
        return self.graph.integer(size) if isinstance(size, int) else size

    def _with_whole_expressions(self, expression: Any) -> Any:
        """Puts known whole expressions in the place of symbols that nobody gives by themselves."""
        for known in self.known:
            if all(symbol in self.known for symbol in expression.free_symbols):
                break
            if not known.is_Symbol:
                expression = expression.subs(known, sympy.Dummy(str(self.indices[known]), integer=True))
        return expression

    def _convert(self, e: Any) -> Size:
        if e in self.known:
            return self.known[e]
        if e.is_Integer or e in (sympy.true, sympy.false):
            return int(e)
        if isinstance(e, sympy.Dummy):
            return next(self.known[known] for known, index in self.indices.items() if str(index) == e.name)
        if e.is_Symbol:
            raise _C.UnsupportedError(f"no argument gives the size {e}")
        rule = RULES.get(e.func)
        if rule is None:
            raise _C.UnsupportedError(f"the size {e} has an operation that oxyfuel does not know: {e.func.__name__}")
        return rule(self, e)

    def operands(self, e: Any) -> list[Any]:
        """As expressions of the graph, so that methods apply."""
        return [self.graph.integer(x) if isinstance(x := self._convert(a), int) else x for a in e.args]


def _finite(bound: Any) -> int | None:
    return int(bound) if getattr(bound, "is_Integer", False) and abs(bound) < 2**62 else None


def _fold(method: str) -> Callable[[SymbolTable, Any], Any]:
    def rule(table: SymbolTable, e: Any) -> Any:
        first, *rest = table.operands(e)
        for operand in rest:
            first = getattr(first, method)(operand)
        return first

    return rule


def _power(table: SymbolTable, e: Any) -> Any:
    base, exponent = table.operands(e)[0], e.args[1]
    if not exponent.is_Integer or not 0 <= int(exponent) <= 64:
        raise _C.UnsupportedError(f"the size {e} has a power that is not a small constant")
    result = table.graph.integer(1)
    for _ in range(int(exponent)):
        result = result * base
    return result


def _modular_indexing(table: SymbolTable, e: Any) -> Any:
    base, divisor, modulus = table.operands(e)
    return (base // divisor) % modulus


def _ceil_div(table: SymbolTable, e: Any) -> Any:
    a, b = table.operands(e)
    return -((-a) // b)


def _left_shift(table: SymbolTable, e: Any) -> Any:
    if not e.args[1].is_Integer:
        raise _C.UnsupportedError(f"the size {e} is shifted by an amount that is not constant")
    return table.operands(e)[0] * 2 ** int(e.args[1])


def _right_shift(table: SymbolTable, e: Any) -> Any:
    if not e.args[1].is_Integer:
        raise _C.UnsupportedError(f"the size {e} is shifted by an amount that is not constant")
    return table.operands(e)[0] // 2 ** int(e.args[1])


def _rounded_quotient(kind: str) -> Callable[[SymbolTable, Any], Any]:
    """Ceiling, floor or truncation of an exact quotient of integers: sizes are small enough for both to agree."""

    def rule(table: SymbolTable, e: Any) -> Any:
        inner = e.args[0]
        if inner.func is not sizes.IntTrueDiv:
            raise _C.UnsupportedError(f"the size {e} comes from a floating-point number")
        a, b = table.operands(inner)
        if kind == "ceil":
            return -((-a) // b)
        return a // b if kind == "floor" else a.truncated_div(b)

    return rule


def _select(table: SymbolTable, e: Any) -> Any:
    condition, a, b = table.operands(e)
    return condition.select(a, b)


def _conjunction(method: str) -> Callable[[SymbolTable, Any], Any]:
    def rule(table: SymbolTable, e: Any) -> Any:
        first, *rest = (_as_condition(operand) for operand in table.operands(e))
        for operand in rest:
            first = getattr(first, method)(operand)
        return first

    return rule


def _as_condition(operand: Any) -> Any:
    return operand if operand.is_boolean else operand.not_equal(0)


def _swapped(method: str) -> Callable[[SymbolTable, Any], Any]:
    def rule(table: SymbolTable, e: Any) -> Any:
        a, b = table.operands(e)
        return getattr(b, method)(a)

    return rule


RULES: dict[Any, Callable[[SymbolTable, Any], Any]] = {
    sympy.Add: _fold("__add__"),
    sympy.Mul: _fold("__mul__"),
    sympy.Pow: _power,
    sizes.PowByNatural: _power,
    sympy.Mod: _fold("__mod__"),
    sizes.Mod: _fold("__mod__"),
    sizes.PythonMod: _fold("__mod__"),
    sizes.FloorDiv: _fold("__floordiv__"),
    sizes.CleanDiv: _fold("__floordiv__"),
    sizes.CeilDiv: _ceil_div,
    sizes.ModularIndexing: _modular_indexing,
    sizes.LShift: _left_shift,
    sizes.RShift: _right_shift,
    sizes.CeilToInt: _rounded_quotient("ceil"),
    sizes.FloorToInt: _rounded_quotient("floor"),
    sizes.TruncToInt: _rounded_quotient("truncate"),
    sizes.Identity: lambda table, e: table.operands(e)[0],
    sizes.Where: _select,
    sizes.Max: _fold("maximum"),
    sizes.Min: _fold("minimum"),
    sympy.Max: _fold("maximum"),
    sympy.Min: _fold("minimum"),
    sympy.Eq: _fold("equal"),
    sympy.Ne: _fold("not_equal"),
    sympy.Lt: _fold("less"),
    sympy.Le: _fold("less_equal"),
    sympy.Gt: _swapped("less"),
    sympy.Ge: _swapped("less_equal"),
    sympy.And: _conjunction("logical_and"),
    sympy.Or: _conjunction("logical_or"),
    sympy.Not: lambda table, e: _as_condition(table.operands(e)[0]).logical_not(),
}
