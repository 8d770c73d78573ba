"""Small programs that repeat a mismatch: a function of ATen operators, its inputs, and a call of `oxyfuel.verify`.

Inputs are drawn anew from a seed where the mismatch is there with those as well; else they lie in a file beside the program.
"""

import importlib.machinery
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import fx

HEADER = '''"""{title}"""

from math import inf, nan  # noqa: F401

import torch
from torch import device  # noqa: F401

import oxyfuel

compile_options = {options}

'''

MAIN = """

if __name__ == "__main__":
    verification = oxyfuel.verify(forward, *inputs(), compile_options=compile_options, program="")
    print(verification)
    raise SystemExit(0 if verification.matches else 1)
"""


def write_program(
    path: Path,
    module: fx.GraphModule,
    inputs: list[Any],
    mismatch: Any,
    compile_options: Mapping[str, Any] | None = None,
) -> Path:
    """Writes the program, and `path` with the ending .pt if its inputs have to be kept. Gives the program's path."""
    module, inputs = with_constants_as_inputs(module, inputs)
    data = path.with_suffix(".pt")
    data.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    title = str(mismatch).splitlines()[0].replace('"""', "'''").replace("\\", "/")
    header = HEADER.format(title=title, options=repr(dict(compile_options or {})))

    def write(source_of_inputs: str) -> None:
        path.write_text(header + source_of_forward(module) + source_of_inputs + MAIN)

    write(source_of_drawn(inputs))
    if not repeats(path, compile_options):
        torch.save(inputs, data)
        load = f'torch.load(Path(__file__).with_name("{data.name}"))'
        write(f"\n\ndef inputs():\n    from pathlib import Path\n\n    return {load}\n")
    return path


def repeats(path: Path, compile_options: Mapping[str, Any] | None) -> bool:
    """Whether the program still finds a mismatch."""
    from oxyfuel.verification import verify

    program = load_program(path)
    return not verify(program.forward, *program.inputs(), program="", compile_options=compile_options).matches


def load_program(path: Path) -> ModuleType:
    """A program as a module, with its `forward` and `inputs`, that has not been run as one."""
    loader = importlib.machinery.SourceFileLoader("oxyfuel_program", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    program = importlib.util.module_from_spec(spec)
    exec(compile(path.read_text(), str(path), "exec"), program.__dict__)  # never from a stale .pyc
    return program


def with_constants_as_inputs(module: fx.GraphModule, inputs: list[Any]) -> tuple[fx.GraphModule, list[Any]]:
    """Tensors that the graph holds become arguments."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    result = graph.graph_copy(module.graph, copies)
    inputs = list(inputs)
    first = next((node for node in graph.nodes if node.op != "placeholder"), None)
    for node in graph.find_nodes(op="get_attr"):
        value = fx.graph_module._get_attr(module, str(node.target))
        if isinstance(value, torch.Tensor) and first is not None:
            with graph.inserting_before(first):
                made = graph.placeholder(node.name)
            node.replace_all_uses_with(made)
            inputs.append(value)
            if node is first:
                first = made.next
            graph.erase_node(node)
    graph.output(result)
    return fx.GraphModule(module, graph), inputs


def source_of_forward(module: fx.GraphModule) -> str:
    code = module.graph.python_code("self").src.strip().replace("def forward(self, ", "def forward(")
    code = code.replace("def forward(self)", "def forward()")
    lines = [line.split("  # ")[0].rstrip() for line in code.splitlines()]
    return "\n" + "\n".join(line for line in lines if line.strip()) + "\n"


def source_of_drawn(inputs: list[Any]) -> str:
    lines = ["\n\ndef inputs():", "    torch.manual_seed(0)", "    return ["]
    lines += [f"        {source_of_input(value)}," for value in inputs]
    return "\n".join([*lines, "    ]", ""])


def source_of_input(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    shape = tuple(value.shape)
    if value.dtype == torch.bool:
        made = f"torch.rand({shape}) < 0.5"
    elif value.is_floating_point() or value.is_complex():
        kind = "" if value.dtype == torch.float32 else f", dtype={value.dtype}"
        made = f"torch.randn({shape}{kind})"
    else:
        low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 0)
        made = f"torch.randint({low}, {high + 1}, {shape}, dtype={value.dtype})"
    if value.is_contiguous():
        return made
    return f"torch.empty_strided({shape}, {value.stride()}, dtype={value.dtype}).copy_({made})"
