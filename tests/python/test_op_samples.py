"""Single samples of PyTorch's table that once came out wrong, each with its kind."""

from __future__ import annotations

import mpmath
import pytest
import torch

from support import check


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64], ids=str)
def test_a_computed_number_expanded_to_nothing(dtype):
    """The result has no memory to hold the number."""
    check(lambda: torch.zeros((0,), dtype=dtype))
    check(lambda: torch.zeros((2, 0, 3), dtype=dtype))
    check(lambda x: (x * 2).sum().expand(0, 4), torch.ones(3, dtype=dtype))


def test_dynamic_expansion_to_nothing():
    compiled = torch.compile(lambda x, y: (x * 2).sum().expand(y.shape[0]), backend="oxyfuel", dynamic=True)
    for size in (3, 0, 5):
        assert torch.equal(compiled(torch.ones(3), torch.ones(size)), torch.full((size,), 6.0))


def test_strides_of_results_with_sizes_from_data():
    """Eager lays out `nonzero` by columns."""
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0]])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(torch.nonzero, x, native=False)
        check(torch.argwhere, x, native=False)
        check(lambda x: torch.nonzero(x) * 2 + 1, x, native=False, strides=False)
        check(lambda x: torch.nonzero(x).T.sum(0), x, native=False)
        check(lambda x: torch.unique(x), x, native=False)


def test_conjugates_and_negatives_that_eager_leaves_for_later():
    x, y = torch.randn(3, 4, dtype=torch.complex64), torch.randn(4, 3, dtype=torch.complex64)
    check(lambda x, y: (x * 2).conj() @ y, x, y)
    check(lambda x, y: (x + y.T.conj()).conj().sum(0), x, y)
    check(lambda x: (x * x).mH * 3, x)
    check(lambda x: (x * x).conj().imag + 1, x)
    check(lambda x: (x * x).conj(), x)
    check(lambda x: x.conj(), x)
    check(lambda x: x.conj().imag, x)
    check(lambda x: x * 2, x.conj(), native=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_fmax_and_fmin_of_zeros(dtype):
    zeros = torch.tensor([0.0, -0.0, 0.0, -0.0], dtype=dtype), torch.tensor([-0.0, 0.0, 0.0, -0.0], dtype=dtype)
    for op in (torch.fmax, torch.fmin):
        found = torch.compile(op, backend="oxyfuel")(*zeros)
        assert torch.equal(found.signbit(), op(*zeros).signbit())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_variance_of_large_numbers(dtype):
    """Their squares overflow in float32; eager computes in double precision."""
    x = torch.tensor([[1e25, 2e25, -1e25, 0.0], [1.0, 2.0, 3.0, 4.0]], dtype=dtype)
    check(lambda x: torch.std(x, dim=1), x)
    check(lambda x: torch.std_mean(x, dim=1, correction=0), x)
    check(lambda x: torch.var(x, dim=1, keepdim=True), x)


def test_operands_of_steps_in_pytorch_lie_as_in_eager():
    """The kernel reads indices as if they had no gaps; `embedding_bag` has made them so before."""
    indices = torch.tensor([1, 9, 5, 9, 4, 9, 5, 9, 9, 9])[::2]
    offsets, weight, scale = torch.tensor([0, 0, 3]), torch.randn(10, 5), torch.randn(10)[::2]

    def bags(weight, indices, offsets, scale):
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode="sum", per_sample_weights=scale)

    check(bags, weight, indices, offsets, scale, native=False)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float32, torch.bfloat16], ids=str)
def test_dropout_backward_of_integers(dtype):
    """The scale is no integer, and neither is the result."""
    gradient, mask = torch.tensor([1, 0, 3, 1]).to(dtype), torch.tensor([True, True, True, False])
    check(lambda g, m: torch.ops.aten.native_dropout_backward(g, m, 2.5), gradient, mask)


def test_cross_entropy_of_ignored_targets_alone():
    """The mean divides by a weight of zero; a target that is ignored has no gradient for all that."""
    targets = torch.full((3,), -100)
    gradients = []
    for compiled in (lambda f: f, lambda f: torch.compile(f, backend="oxyfuel", fullgraph=True)):
        x = torch.arange(12.0).reshape(3, 4).requires_grad_()
        compiled(lambda x: torch.nn.functional.cross_entropy(x, targets, label_smoothing=0.1))(x).backward()
        gradients.append(x.grad)
    assert torch.equal(gradients[0], torch.zeros(3, 4))
    assert torch.equal(gradients[1], torch.zeros(3, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("exponents", [[-(2**31), 200, 2**31 - 1, 3, -150, -140, 5], [1, 1, 1, 2000, -2000, -15, 0]])
def test_ldexp_of_exponents_that_leave_the_type(dtype, exponents):
    x = torch.tensor([float("inf"), 0.0, -0.0, 2.0, 3e4, 1.5, float("nan")]).to(dtype)
    torch.compiler.reset()
    check(torch.ldexp, x, torch.tensor(exponents, dtype=torch.int32), native=dtype != torch.float64)


def test_digamma_in_double():
    """Right values by mpmath: eager's has an error of a third beside the pole at -1."""
    x = torch.tensor(
        [1.7976931348623157e308, 1e300, 1e71, 12.25, 1.5, 1e-300, -0.9999999999999998], dtype=torch.float64
    )
    right = torch.tensor([float(mpmath.digamma(mpmath.mpf(value))) for value in x.tolist()], dtype=torch.float64)
    found = torch.compile(torch.digamma, backend="oxyfuel", fullgraph=True)(x)
    # Near its zero at 1.46 the function subtracts numbers of the size of its argument.
    bound = 4 * torch.finfo(torch.float64).eps * torch.maximum(right.abs(), torch.ones(7, dtype=torch.float64))
    assert ((found - right).abs() <= bound).all(), f"{found.tolist()} is not {right.tolist()}"


def test_log1p_of_denormals_in_double():
    """They are their own logarithm; eager gives 0 for the least."""
    x = torch.tensor([5e-324, -5e-324, 1e-310], dtype=torch.float64)
    found = torch.compile(torch.log1p, backend="oxyfuel", fullgraph=True)(x)
    assert found.tolist() == x.tolist()
