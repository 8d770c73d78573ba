"""`oxyfuel.recompiles()`: which functions TorchDynamo compiled again, how often and why."""

import dataclasses
import re
import warnings
from collections import Counter

from oxyfuel._C import CompileError


@dataclasses.dataclass
class RecompiledFunction:
    """One function, or the call of a module, that was compiled for more than one kind of arguments."""

    name: str
    file: str
    line: int
    reasons: list[str] = dataclasses.field(default_factory=list)
    """Of each recompile, the condition of the latest compiled code that did not hold."""
    limit: int = 0
    """Compiles at which PyTorch gave up; 0 when it did not. The last reason is then that of a call it left alone."""

    @property
    def count(self) -> int:
        """How often it was compiled again."""
        return len(self.reasons) - bool(self.limit)

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        lines = [f"{self.name}{place}: compiled again {_times(self.count)}"]
        if self.limit:
            lines.append(f"  the limit of {self.limit} compiles is reached: other calls run in PyTorch")
        lines += [f"  {_times(count)}: {reason}" for reason, count in Counter(self.reasons).items()]
        return "\n".join(lines)


@dataclasses.dataclass
class Recompiles:
    """All of them, in order of first recompile."""

    functions: list[RecompiledFunction]

    @property
    def count(self) -> int:
        return sum(function.count for function in self.functions)

    def __str__(self) -> str:
        return "\n".join(map(str, self.functions)) or "nothing was compiled again"


_functions: dict[tuple[str, str, int], RecompiledFunction] = {}


def recompiles() -> Recompiles:
    """What was compiled again since the process began, or since `torch.compiler.reset()`."""
    return Recompiles([dataclasses.replace(f, reasons=list(f.reasons)) for f in _functions.values()])


def clear() -> None:
    _functions.clear()


def record(name: str, file: str, line: int, reason: str) -> RecompiledFunction:
    """Notes one recompile. A reason is given as Dynamo writes it."""
    function = _functions.setdefault((name, file, line), RecompiledFunction(name, file, line))
    # "3/1: tensor 'x' size mismatch …": the number of the compile says nothing to a user.
    function.reasons.append(re.sub(r"^\d+/\d+(_\d+)?: ", "", reason.split("\nUser stack trace")[0].strip()))
    return function


def reach_limit(function: RecompiledFunction, limit: int, is_strict: bool) -> None:
    """Says in plain words, once a function, that PyTorch compiles it no more. CompileError in strict mode."""
    if function.limit:
        return
    function.limit = limit
    reason = function.reasons[-1]
    lines = [
        f"{function.name} was compiled {limit} times, as often as PyTorch allows",
        *([f"where  {function.where}"] if function.where else []),
        f"found  {reason}",
        "so     calls that none of the compiled code fits run in PyTorch from now on",
        _advice(reason),
        "or     oxyfuel.compile(…, recompile_limit=64), when all of them are wanted; oxyfuel.recompiles() lists them",
    ]
    message = "\n  ".join(lines)
    if is_strict:
        raise CompileError(message)
    warnings.warn(f"oxyfuel: {message}", RuntimeWarning, stacklevel=2)


def _advice(reason: str) -> str:
    if "size mismatch" in reason or "stride mismatch" in reason:
        return "or     dynamic=True, or torch._dynamo.mark_dynamic(tensor, axis), when sizes vary"
    if "requires_grad" in reason or "grad_mode" in reason:
        return "or     the same torch.no_grad() and requires_grad in all calls"
    return "or     a tensor in place of the number that varies, or one function a case"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
