# A fresh machine needs Python 3.11+, make and a package index; everything else comes into .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test chaos gpu-check servers-check lint format docs drawing notebooks lock clean

demo: .venv/demo.stamp
	$(BIN)/ceil-jax demo

# All tests; plain `pytest` leaves out those marked slow.
test: .venv/dev.stamp
	$(BIN)/python -m pytest -m 'not mypy' -n 2 --dist loadfile --no-loadscope-reorder --durations 15

# Kills, flipped bits, strangers' folders and odd answers, drawn at random: about a thousand cases. Run by hand;
# CASES=200 draws fewer, SEED=7 draws others.
CASES ?= 1000
SEED ?= 0
chaos: .venv/dev.stamp
	CEIL_JAX_CHAOS=$(CASES) $(BIN)/python -m pytest -n 0 --hypothesis-seed=$(SEED) --durations 0 \
	  -o python_files='chaos_*.py' -o python_functions='chaos_*' tests/chaos

# On a machine with a GPU: numerics, benchmarks and an experiment, each whichever of the others fails.
CUDA ?= cuda
ON_GPU := JAX_PLATFORMS=cuda XLA_PYTHON_CLIENT_PREALLOCATE=false $(BIN)/python
gpu-check: .venv/dev.stamp .venv/$(CUDA).stamp
	failed=0; \
	$(ON_GPU) -m pytest -q -m '' tests/dpp tests/retrieval tests/training tests/encoders tests/lm/torch || failed=1; \
	$(ON_GPU) -m benchmarks --device gpu --rounds 3 || failed=1; \
	$(ON_GPU) -m ceil_jax.cli.main compare --method topk dpp epr ceil || failed=1; \
	exit $$failed

# Real servers with the packaged weights, each in an environment of its own: no part of the tests.
servers-check: .venv/dev.stamp
	$(BIN)/python -m benchmarks.servers

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m mypy tests/selector

docs: .venv/docs.stamp
	$(BIN)/python -m mkdocs build --strict

# The figure of docs/architecture.md, from the code's own imports; tests fail when it is an old one.
drawing:
	$(PYTHON) docs/architecture.py

# Beside each source an .ipynb with its figures; tests fail when it has other code.
notebooks: .venv/notebooks.stamp
	$(BIN)/python notebooks/execute.py

format: .venv/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# --no-compile: Python compiles the modules that are imported, which are few of those installed.
.venv/%.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[$*]'
	touch $@

# The versions that were tested together, without hashes or addresses.
lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet 'torch==2.13.0' '.[dev]'
	{ echo '# Versions tested together; written by `make lock`.'; \
	  build/lock/bin/python -m pip freeze --exclude ceil-jax | sed 's/+cpu$$//'; } > constraints.txt

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
