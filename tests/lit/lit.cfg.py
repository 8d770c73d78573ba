# Text tests of the IRs and passes: `oxyfuel-opt` on a file, `filecheck` on what comes out.
# Run by `make lit`, or one file: lit -v --param bin=build/wheel/bin tests/lit/…
import os

import lit.formats

config.name = "oxyfuel"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".oxir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
root = os.path.dirname(os.path.dirname(config.test_source_root))
tools = os.path.abspath(lit_config.params.get("bin", os.path.join(root, "build/wheel/bin")))
config.test_exec_root = os.path.join(os.path.dirname(tools), "lit")

if not os.path.exists(os.path.join(tools, "oxyfuel-opt")):
    lit_config.fatal(f"no oxyfuel-opt in {tools}: run `make native-tests`, or pass --param bin=<folder>")

config.environment["PATH"] = os.pathsep.join([tools, config.environment["PATH"]])
config.environment["OXYFUEL_STRICT"] = "1"
for name in ("OXYFUEL_BLESS", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
