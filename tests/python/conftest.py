"""Sets up every Python test: strict mode, a cache of its own, one seed that is printed, and the world to run in.

pytest --seed 7            repeats a run: each test draws from this seed and its own name
pytest --world scalar      the same tests under tests/configs/scalar.env
pytest --programs 2000     how many random programs test_random.py draws
"""

import os
import random
import tempfile
import zlib
from pathlib import Path

import pytest

# Read by PyTorch's OpenMP when it is loaded: its threads would spin on cores that other workers of the run need.
os.environ.setdefault("GOMP_SPINCOUNT", "0")
# A bug in the compiler raises instead of falling back to eager.
os.environ["OXYFUEL_STRICT"] = "1"
# Both IRs are checked between passes, and every LLVM module.
os.environ.setdefault("OXYFUEL_VERIFY", "1")
# Models are made from their configuration, with random weights.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OXYFUEL_CACHE_DIR", tempfile.mkdtemp(prefix="oxyfuel-test-cache-"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.environ["OXYFUEL_CACHE_DIR"] + "/torch")  # AOTAutograd's too

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGS = ROOT / "tests" / "configs"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=int(os.environ.get("OXYFUEL_SEED", "0")), help="seed of all tests")
    parser.addoption("--world", help="run under tests/configs/<world>.env")
    parser.addoption("--programs", type=int, default=150, help="random programs to draw")


def read_world(name: str) -> dict[str, str]:
    """The environment that tests/configs/<name>.env sets."""
    path = CONFIGS / f"{name}.env"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.env")))
        raise pytest.UsageError(f"no world {name!r} in tests/configs; there are: {known}")
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line)


def pytest_configure(config: pytest.Config) -> None:
    if world := config.getoption("--world"):
        os.environ.update(read_world(world))
    if os.environ.get("OXYFUEL_TEST_DYNAMIC"):
        import torch._dynamo.config

        torch._dynamo.config.assume_static_by_default = False


def pytest_report_header(config: pytest.Config) -> str:
    world = config.getoption("--world")
    return f"oxyfuel: world {world or 'default'}, seed {config.getoption('--seed')}"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """This test's own seed: from the run's seed and the test's name, so that order and selection do not matter."""
    return zlib.crc32(f"{request.config.getoption('--seed')} {request.node.nodeid}".encode())


@pytest.fixture(autouse=True)
def seeded(seed: int) -> None:
    """Seeds what tests draw from."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    """Leaves no compiled code of an earlier test."""
    import torch

    torch.compiler.reset()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Prints, below a failure, the line that repeats it."""
    report = yield
    if report.failed:
        world = item.config.getoption("--world")
        options = f"--seed {item.config.getoption('--seed')}" + (f" --world {world}" if world else "")
        if "random" in item.nodeid:
            options += f" --programs {item.config.getoption('--programs')}"
        report.sections.append(("repeat", f".venv/bin/python -m pytest {options} '{item.nodeid}'"))
    return report
