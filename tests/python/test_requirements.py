"""What Oxyfuel refuses to run on, and in which words."""

import importlib
import subprocess

import pytest

from oxyfuel._requirements import RequirementError, check_platform, check_torch


@pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cpu", "2.13.0a0+git123"])
def test_supported_torch(version):
    check_torch(version)


@pytest.mark.parametrize("version", ["2.12.1", "2.14.0", "3.0.0", "2.130.0"])
def test_other_torch_is_refused(version):
    with pytest.raises(RequirementError) as raised:
        check_torch(version)
    assert str(raised.value) == (
        "oxyfuel needs PyTorch 2.13, whose internal interfaces it is written for\n"
        f"  found  PyTorch {version}\n"
        "  or     pip install torch==2.13.0"
    )


def test_other_system_is_refused():
    with pytest.raises(RequirementError) as raised:
        check_platform((3, 12), "Darwin", "arm64")
    assert str(raised.value).startswith("oxyfuel runs on Linux x86_64 only\n  found  Darwin arm64\n")


def test_old_python_is_refused():
    with pytest.raises(RequirementError) as raised:
        check_platform((3, 10), "Linux", "x86_64")
    assert str(raised.value).startswith("oxyfuel needs Python 3.11 or newer\n  found  Python 3.10\n")


def test_only_the_init_function_and_the_debugger_interface_leave_the_module():
    """LLVM's symbols stay inside: another LLVM in the process does no harm."""
    module = importlib.import_module("oxyfuel._C")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", module.__file__], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in listed.splitlines()] == [
        "PyInit__C",
        "__jit_debug_descriptor",
        "__jit_debug_register_code",
    ]


def test_the_module_needs_system_libraries_only():
    module = importlib.import_module("oxyfuel._C")
    listed = subprocess.run(["readelf", "-d", module.__file__], capture_output=True, text=True, check=True).stdout
    needed = {line.split("[")[1].rstrip("]") for line in listed.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}
