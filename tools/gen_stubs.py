#!/usr/bin/env python3
"""Writes python/oxyfuel/_C.pyi, the types of the native module, from the module itself; it needs the installed package.

gen_stubs.py           writes it
gen_stubs.py --check   writes nothing, and fails when the file is not what it would write
"""

import re
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

from oxyfuel import _C

STUB = Path(__file__).resolve().parent.parent / "python" / "oxyfuel" / "_C.pyi"
NOTE = "# Written by tools/gen_stubs.py (`make docs`): change src/python instead.\n"
ERRORS = ("CompileError", "InternalError", "UnsupportedError")
"""They say that they are of the package, which takes them from here."""


def stub() -> str:
    generator = StubGen(_C, quiet=True)
    generator.put(_C)
    text = re.sub(r"from oxyfuel import \([^)]*\)\n", "", generator.get())
    text = re.sub(r"^(version: str|abi_version: int) = .*$", r"\1", text, flags=re.MULTILINE)
    classes = [f'class {name}(RuntimeError):\n    """{getattr(_C, name).__doc__}"""\n' for name in ERRORS]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join([NOTE + text.rstrip() + "\n", *classes]))


def main(arguments: list[str]) -> int:
    text = stub()
    if "--check" not in arguments:
        STUB.write_text(text)
    elif not STUB.is_file() or STUB.read_text() != text:
        print(f"{STUB.name} is not what tools/gen_stubs.py writes\n  or     make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
