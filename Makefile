# Two commands on a fresh machine: `make demo` and `make test`. Everything is set up by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ARGS   ?=

.PHONY: demo peers kafka cluster test attacks dependencies deep lock lint types check bench site words pictures screenshots clean help

help: ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[all,demos]' --group dev
	@touch $(STAMP)

demo: $(STAMP) ## live views of made-up posts; ARGS="--for 1m"
	$(BIN)/penstock demo $(ARGS)

kafka: $(STAMP) ## a Kafka broker to try things with; ARGS="--port 9092"
	$(BIN)/python -m penstock.dev.broker $(ARGS)

cluster: $(STAMP) ## a standalone Spark cluster to try things with; ARGS="--workers 2"
	$(BIN)/python -m penstock.dev.cluster $(ARGS)

test: $(STAMP) ## all tests; ARGS="-k session" goes to pytest
	$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder $(ARGS)

deep: $(STAMP) ## the long random runs, with other examples each time; SEED=7 repeats those of a seed
	@seed=$${SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbelow(2**32))')} && \
	echo "The seed of this run: make deep SEED=$$seed" && \
	PENSTOCK_DEEP=1 $(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder --hypothesis-seed=$$seed $(ARGS)

attacks: $(STAMP) ## the attacks of docs/security.md, and which of them held
	$(BIN)/python -m tests.attacks $(ARGS)

dependencies: $(STAMP) ## known vulnerabilities in dependencies; needs the network
	.ci/audit

lock: $(STAMP) ## the newest versions of all dependencies into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --extra all --extra demos --python-version 3.11 \
		--upgrade --no-header --no-annotate --quiet --output-file requirements.lock

lint: $(STAMP) ## ruff, and code that nothing uses (vulture)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture

types: $(STAMP) ## mypy
	$(BIN)/mypy

check: lint types test ## what CI runs

bench: $(STAMP) ## the benchmarks; write bench/results/
	$(BIN)/python bench/kernel.py $(ARGS)
	$(BIN)/python bench/engine.py $(ARGS)
	$(BIN)/python bench/serving.py

peers: $(STAMP) ## the comparison with other systems; ARGS=--quick takes 15 minutes, ARGS=--full is for the record
	$(BIN)/python -m bench.peers $(ARGS)

site: $(STAMP) ## the documentation site, in build/site/index.html
	$(BIN)/mkdocs build --strict --quiet

words: $(STAMP) ## lowers the counts of words that are still there (tests/words.yaml)
	$(BIN)/python -m tests.test_words

pictures: $(STAMP) ## the pictures of docs/
	$(BIN)/python docs/make_pictures.py

screenshots: $(STAMP) ## the pictures of the dashboard, with the system's Chromium
	$(BIN)/python -m tests.browser.screenshots docs/images

clean: ## removes what was made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
