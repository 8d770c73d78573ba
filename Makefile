# What a developer types daily. `make run` and `make test` work on a fresh clone: they need g++ 12, Python 3.11 and PyPI.
#
# There is one release build, build/wheel: scikit-build-core makes the Python module there, and the tools and C++ tests
# are built in the same folder from the same objects.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
BUILD := build/wheel
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
NATIVE_SOURCES := $(shell find src include cmake -type f 2>/dev/null) CMakeLists.txt pyproject.toml
SOURCES := $(NATIVE_SOURCES) $(shell find python -name '*.py*' -not -path '*/__pycache__/*')
SEED ?= 0
WORLDS := $(basename $(notdir $(wildcard tests/configs/*.env)))
TSAN_TESTS ?= unit_support unit_runtime

export PATH := $(BIN):$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

.PHONY: run test check docs asan tsan venv install native-tests unit lit pytest perf world fuzz opinfo moduleinfo models tidy format clean system-packages

## run: compile BERT-base and ResNet-50, compare with eager, print a table
run: $(STAMPS)/installed $(STAMPS)/models
	$(BIN)/python -m oxyfuel.cli run

## test: everything but the sanitizers
test: unit lit pytest

## check: formatters, linters, types, layers, sizes; seconds
check: $(STAMPS)/check
	tools/check.sh

## asan: the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
asan: $(STAMPS)/build system-packages
	cmake --preset asan -DPython_EXECUTABLE=$(BIN)/python
	cmake --build --preset asan
	ctest --preset asan

## tsan: the C++ tests that use threads, under ThreadSanitizer
tsan: $(STAMPS)/build system-packages
	cmake --preset tsan -DPython_EXECUTABLE=$(BIN)/python
	cmake --build --preset tsan --target $(TSAN_TESTS)
	tools/run_tsan.sh build/tsan $(TSAN_TESTS)

## docs: the pages of docs/ and the types of the native module, which follow from the sources
docs: $(STAMPS)/installed
	$(BIN)/python tools/gen_docs.py
	$(BIN)/python tools/gen_stubs.py

# The parts of `make test`.
unit: native-tests
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

lit: native-tests
	lit -sv --param bin=$(CURDIR)/$(BUILD)/bin tests/lit

pytest: $(STAMPS)/installed $(STAMPS)/test
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

## perf: what compiled kernels and the compiler itself cost, counted, against tests/perf/expected.txt
perf: native-tests
	tools/install_system_packages.sh perf
	$(BIN)/python tools/check_perf.py $(BUILD)/bin

## world: the Python tests under one configuration of tests/configs, for example `make world WORLD=no-fusion`
world: $(STAMPS)/installed $(STAMPS)/test
	$(BIN)/python -m pytest -n $(JOBS) --world $(WORLD) $(PYTEST_ARGS)

## fuzz: 2,000 random programs against eager, and 200 in each world; SEED=… draws others
fuzz: $(STAMPS)/installed $(STAMPS)/test
	$(BIN)/python -m pytest -n $(JOBS) --seed $(SEED) --programs 2000 tests/python/test_random.py
	for world in $(WORLDS); do \
	  $(BIN)/python -m pytest -n $(JOBS) --seed $(SEED) --world $$world --programs 200 tests/python/test_random.py || exit; done

## opinfo: all of PyTorch's samples of its operators beside eager, in hours; goes on where it was stopped (build/opinfo.jsonl)
opinfo: $(STAMPS)/installed $(STAMPS)/test
	PYTHONPATH=tests/python $(BIN)/python -m opinfo --jobs $(JOBS) $(OPINFO_ARGS)

## moduleinfo: all of PyTorch's samples of its modules, with gradients, beside eager (build/moduleinfo.jsonl)
moduleinfo: $(STAMPS)/installed $(STAMPS)/test
	PYTHONPATH=tests/python $(BIN)/python -m opinfo --modules --jobs $(JOBS) $(OPINFO_ARGS)

## models: architectures of Hugging Face, small, beside eager PyTorch and Inductor, some twenty minutes: docs/models.md
models: $(STAMPS)/installed $(STAMPS)/models
	PYTHONPATH=benchmarks $(BIN)/python -m models $(MODELS_ARGS)

# PyTorch comes first and by its exact version: a range can pull a CUDA build of several gigabytes.
$(STAMPS)/build: pyproject.toml tools/list_requirements.py
	tools/install_system_packages.sh python $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)
	$(PIP) install torch==2.13.0
	$(BIN)/python tools/list_requirements.py build-system runtime | $(PIP) install -r /dev/stdin
	touch $@

$(STAMPS)/%: $(STAMPS)/build
	$(BIN)/python tools/list_requirements.py $* | $(PIP) install -r /dev/stdin
	touch $@

# No build isolation: an isolated build would compile everything again in a folder of its own.
$(STAMPS)/installed: $(SOURCES) | $(STAMPS)/build
	$(PIP) install --no-build-isolation --no-deps --config-settings build-dir=$(BUILD) .
	touch $@

venv: $(STAMPS)/build $(STAMPS)/test $(STAMPS)/check
install: $(STAMPS)/installed

native-tests: $(STAMPS)/installed $(STAMPS)/test system-packages
	cmake -S . -B $(BUILD) -DOXYFUEL_TESTS=ON -DOXYFUEL_TOOLS=ON
	cmake --build $(BUILD)

# GoogleTest comes from Debian; so does what a Debian Python lacks for a virtual environment.
system-packages:
	tools/install_system_packages.sh tests

tidy: $(STAMPS)/tidy
	cmake --preset release -DPython_EXECUTABLE=$(BIN)/python
	run-clang-tidy -p build/release -quiet -j $(JOBS) '$(CURDIR)/(src|tools)/'

format: $(STAMPS)/check
	tools/check.sh --fix

clean:
	rm -rf build $(STAMPS)/installed
