"""What Oxyfuel does not compile, and hosts that do not let it work: results stay right, and one message says what is wrong."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
import traceback
import warnings

import pytest
import torch

import oxyfuel
from oxyfuel import arguments
from oxyfuel import backend as backend_module
from oxyfuel.reports import collect
from support import run_both, same


def run_child(code: str, **variables: str) -> str:
    """What a process of its own prints; it has to end by itself."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def fallbacks(explanation) -> list[str]:
    return [graph.fallback for graph in explanation.graphs]


# Tensors --------------------------------------------------------------------------------------------------------------


def quantise(x: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
def test_quantised_tensors_made_inside():
    x = torch.randn(4, 4)
    found, wanted, explanation = run_both(lambda x: quantise(x).dequantize() * 2, x)
    same(found, wanted)
    assert "aten.quantize_per_tensor.default may make a quantised tensor" in fallbacks(explanation)[0]
    found, wanted, _ = run_both(lambda x: quantise(x + 1), x)
    assert found[0].is_quantized
    assert torch.equal(found[0].int_repr(), wanted[0].int_repr())


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
def test_quantised_tensors_as_arguments():
    compiled = torch.compile(lambda x: x.dequantize() + 1, backend="oxyfuel")
    x = quantise(torch.randn(4, 4))
    same(compiled(x), x.dequantize() + 1)
    compiled = torch.compile(torch.relu, backend="oxyfuel")
    same(compiled(torch.ones(4)), torch.ones(4))
    assert torch.equal(compiled(x).int_repr(), torch.relu(x).int_repr())  # at a later call


def test_sparse_tensors():
    x = torch.eye(4)
    compiled = torch.compile(lambda s, x: torch.sparse.mm(s, x) + 1, backend="oxyfuel")
    same(compiled(x.to_sparse(), x), x + 1)
    found, _, _ = run_both(lambda x: (x + 1).to_sparse().to_dense() * 2, x)
    same(found[0], (x + 1) * 2)
    twice = torch.compile(lambda x: x * 2, backend="oxyfuel")
    same(twice(x), x * 2)
    same(twice(x.to_sparse()).to_dense(), x * 2)  # at a later call


def test_tensors_of_other_devices():
    def twice(x):
        return x * 2

    compiled = torch.compile(twice, backend="oxyfuel")
    same(compiled(torch.ones(3)), torch.ones(3) * 2)
    with collect() as explanation:
        result = compiled(torch.empty(3, device="meta"))
    assert result.device.type == "meta"
    assert fallbacks(explanation)[0] == (
        "argument x is on the device meta, not on the CPU\n"
        "  found  torch.float32[3] on meta, torch.strided\n"
        "  so     PyTorch runs this graph"
    )
    same(compiled(torch.ones(3)), torch.ones(3) * 2)
    found, _, _ = run_both(lambda x: ((x + 1).to("meta"), x + 1), torch.ones(3))
    assert found[0][0].device.type == "meta"
    same(found[0][1], torch.ones(3) * 2)


def test_messages_name_arguments_as_the_program_does():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3, device="meta")])
            self.register_buffer("scale", torch.ones(3, device="meta"))

        def forward(self, state):
            return state["inner"][0] * self.scale + self.layers[0].bias

    model = Scaled()
    one = torch.ones(3, device="meta")
    with collect() as explanation:
        torch.compile(model, backend="oxyfuel")({"inner": [one]})
    names = [arguments.name_of_source(node) for node in placeholders_of(model, {"inner": [one]})]
    assert sorted(names) == ["self.layers[0].bias", "self.scale", "state['inner'][0]"]
    found = fallbacks(explanation)[0].splitlines()[0]
    assert found in [f"argument {name} is on the device meta, not on the CPU" for name in names]


def placeholders_of(model, *inputs):
    """Of the graph that Dynamo makes."""
    found = []

    def keep(module, examples):
        found.extend(module.graph.find_nodes(op="placeholder"))
        return module

    torch.compiler.reset()
    torch.compile(model, backend=keep)(*inputs)
    return found


def test_nested_tensors():
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    result = torch.compile(lambda x: x * 2, backend="oxyfuel")(x)
    same(result.values(), x.values() * 2)


def test_lazily_conjugated_and_negated_views():
    compiled = torch.compile(lambda x: x * 2 + 1, backend="oxyfuel")
    x = torch.randn(4, dtype=torch.complex64)
    for view in (x, x.conj(), x.imag, x.conj().imag, x.real):
        same(compiled(view), view * 2 + 1)


def test_a_changed_rank_recompiles():
    compiled = torch.compile(lambda x: x.sum(-1) * 2, backend="oxyfuel")
    for x in (torch.randn(4), torch.randn(2, 3), torch.randn(2, 3, 4), torch.tensor([[1.0]])):
        same(compiled(x), x.sum(-1) * 2)


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.ones(3, 4), r"found shape \[3, 4\], wanted \[4, 4\]"),
        (lambda: torch.ones(4), "found 1 axes, wanted 2"),
        (lambda: torch.ones(4, 4).double(), "found f64, wanted f32"),
        (lambda: torch.eye(4).to_sparse(), "(?s)argument 0.*found  torch.float32 on cpu, torch.sparse_coo"),
        (lambda: torch.empty(4, 4, device="meta"), "(?s)argument 0.*found  torch.float32 on meta"),
        (lambda: quantise(torch.ones(4, 4)), "(?s)argument 0.*found  torch.qint8 on cpu"),
        (lambda: 3, "(?s)argument 0.*found  an object of type int"),
    ],
)
def test_calls_without_guards_are_checked(make, message):
    """torch.compile lets users take Dynamo's guards away; a call that does not fit is an error then, never a wrong result."""
    options = {"guard_filter_fn": lambda guards: [False] * len(guards)}
    compiled = torch.compile(lambda x: x * 2, backend="oxyfuel", options=options)
    x = torch.randn(4, 4)
    same(compiled(x), x * 2)
    with pytest.raises(RuntimeError, match=message):
        compiled(make())
    same(compiled(x), x * 2)


# Errors of the user ---------------------------------------------------------------------------------------------------


def test_an_error_in_forward_has_the_users_traceback():
    class Broken(torch.nn.Module):
        def forward(self, x):
            return self.helper(torch.sin(x))

        def helper(self, x):
            if x.shape[0] == 3:
                raise ValueError("three rows are too many")
            return x @ torch.ones(7, 7)

    broken = oxyfuel.compile(Broken())
    with pytest.raises(ValueError, match="three rows are too many") as raised:
        broken(torch.ones(3, 5))
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.name) == (__file__, "helper")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as raised:
        broken(torch.ones(2, 5))
    text = "".join(traceback.format_exception(raised.value))
    assert "return x @ torch.ones(7, 7)" in text


def test_unknown_passes_to_skip():
    with pytest.raises(ValueError, match=r"unknown pass in the option skip\n  found  'fuze'\n  or     'fuse'"):
        oxyfuel.compile(torch.sin, skip=["fuze"])


def test_unknown_passes_in_the_variable(monkeypatch):
    monkeypatch.setenv("OXYFUEL_SKIP", "canonicalize")
    with pytest.raises(Exception, match="'canonicalise'"):
        torch.compile(torch.sin, backend="oxyfuel")(torch.ones(3))


# Caches ---------------------------------------------------------------------------------------------------------------


def compile_with_cache(folder) -> list[str]:
    """Compiles with kernels kept in `folder`, AOTAutograd's cache left out; our warnings."""
    backend_module.warn_of_cache.cache_clear()
    torch.compiler.reset()
    with warnings.catch_warnings(record=True) as caught, torch.compiler.config.patch(force_disable_caches=True):
        warnings.simplefilter("always")
        for function in (lambda x: torch.tanh(x) * 2, lambda x: torch.sin(x) * 2):
            x = torch.randn(5)
            same(torch.compile(function, backend="oxyfuel", options={"cache_dir": str(folder)})(x), function(x))
    return [str(warning.message) for warning in caught if "oxyfuel" in str(warning.message)]


def test_a_cache_that_works_says_nothing(tmp_path):
    assert compile_with_cache(tmp_path / "cache") == []
    assert len(list((tmp_path / "cache").glob("*.kernel"))) >= 2


def test_a_cache_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    (message,) = compile_with_cache(tmp_path / "file" / "cache")
    assert "cannot make directory" in message
    assert "kernels are compiled afresh" in message


def test_a_cache_that_others_may_write(tmp_path):
    tmp_path.chmod(0o777)
    (message,) = compile_with_cache(tmp_path)
    assert "may be written by other users" in message


def test_damaged_kernels_are_replaced(tmp_path):
    assert compile_with_cache(tmp_path) == []
    files = list(tmp_path.glob("*.kernel"))
    whole = {path: path.read_bytes() for path in files}
    for path, data in whole.items():
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (message,) = compile_with_cache(tmp_path)
    assert "is damaged" in message
    assert {path: path.read_bytes() for path in files} == whole
    for path in files:
        path.write_bytes(b"")
    assert len(compile_with_cache(tmp_path)) == 1
    assert compile_with_cache(tmp_path) == []


def test_a_full_disk(tmp_path):
    """A limit on the size of files stops writes as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        messages = compile_with_cache(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(messages) == 1
    assert "cannot write" in messages[0]
    assert list(tmp_path.iterdir()) == []


def test_the_limit_of_the_cache_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(backend_module.cache, "LOOK_EVERY", 1)
    for number in range(4):
        name = tmp_path / f"{number:064}.kernel"
        name.write_bytes(b"x" * (400 << 10))
        os.utime(name, (number, number))
    options = {"cache_dir": str(tmp_path), "cache_limit": 1}
    torch.compile(lambda x: torch.tanh(x) * 3, backend="oxyfuel", options=options)(torch.randn(5))
    left = sorted(path.name.strip("0") for path in tmp_path.glob("000*.kernel"))
    assert left == ["2.kernel", "3.kernel"]


# Memory and rights ----------------------------------------------------------------------------------------------------


def test_no_memory_for_a_call():
    """An exception; the process lives, and the next call works."""
    out = run_child(
        """
        import resource, torch
        # Two products and their sum, of which only the last is a result: the others lie in the arena.
        def f(x):
            return (((x @ x.T) @ x).relu() @ x.T).sum(0)
        compiled = torch.compile(f, backend="oxyfuel", dynamic=True)
        small = torch.randn(64, 8)
        wanted = compiled(small)
        used = int(open("/proc/self/statm").read().split()[0]) * 4096
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        large = torch.randn(20000, 8)
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), hard))
        for _ in range(2):
            try:
                compiled(large)
                print("no error")
            except RuntimeError as error:
                print(error)
            print(torch.equal(compiled(small), wanted))
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        print(torch.equal(compiled(small), wanted))
        """
    )
    assert out.count("oxyfuel: not enough memory\n  found  no memory for an arena of") == 2
    assert out.count("True") == 3


def test_no_memory_for_a_compile():
    """Whatever is left when a compile begins, it ends with a result or with an exception."""
    out = run_child(
        """
        import os, resource, torch, oxyfuel
        torch.set_num_threads(1)
        torch.compile(lambda x: x + 1, backend="oxyfuel", options={"cache": False})(torch.ones(3))
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        x = torch.randn(8, 16)
        module = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Softmax(-1))
        for megabytes in (0, 1, 2, 4, 8, 16, 32):
            child = os.fork()
            if child == 0:
                used = int(open("/proc/self/statm").read().split()[0]) * 4096
                resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), hard))
                try:
                    torch.compile(module, backend="oxyfuel", options={"cache": False, "compile_threads": 2})(x)
                except BaseException:
                    pass
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            print(megabytes, "ended" if status == 0 else f"died of {status}", flush=True)
        """,
        OXYFUEL_STRICT="0",
    )
    assert out.count("ended") == 7, out


def test_a_host_that_forbids_new_code():
    out = run_child(
        """
        import ctypes, warnings, torch
        PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
        import oxyfuel
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0:
            print("skip")
            raise SystemExit
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for f in (torch.tanh, torch.sin):
                x = torch.randn(5)
                torch.testing.assert_close(torch.compile(lambda x: f(x) * 2, backend="oxyfuel")(x), f(x) * 2)
        messages = [str(warning.message) for warning in caught if "oxyfuel" in str(warning.message)]
        print(len(messages), messages[0])
        """
    )
    if out == "skip\n":
        pytest.skip("this kernel has no PR_SET_MDWE")
    assert out.startswith("1 oxyfuel: this system does not let the process run code that it makes")
    assert "all graphs run in PyTorch" in out
