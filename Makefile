# Each target sets up what it needs. uv is taken from the PATH, else put into .uv/.
UV := $(shell command -v uv || echo .uv/bin/uv)
RUN := $(UV) run --frozen
# A question of one's own travels in the environment, where no shell reads it again.
export QUESTION ?=
export FOLDER ?= docs

.PHONY: demo test lint types fmt check

demo: $(UV)
	@$(UV) sync --quiet --frozen --inexact --no-dev --package podium --extra offline
	@.venv/bin/podium demo --folder "$$FOLDER" $${QUESTION:+"$$QUESTION"}

test: $(UV)
	$(RUN) pytest

lint: $(UV)
	$(RUN) ruff check
	$(RUN) ruff format --check

types: $(UV)
	$(RUN) mypy

fmt: $(UV)
	$(RUN) ruff check --fix
	$(RUN) ruff format

check: lint types test

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/pip install --quiet uv
