# Every target sets the project up first. PYTHON=... names the Python to use, ARGS=... adds
# options to the command that is run.
.PHONY: help setup demo quick test soak test-postgres check check-core bench docs tables lock clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 14

setup: ## make .venv, or do nothing if it is there
	@./scripts/setup

demo: setup ## play the toy problem encrypted, beside plaintext algorithms
	@./scripts/demo $(ARGS)

CORE = bandits garbling learning numerics parties problems ring simulation
quick: setup ## run the fast tests of the core on the simulator; ARGS=tests/ring those of a folder
	.venv/bin/python -m pytest -n auto -m "not slow and not ckks" $(or $(ARGS),$(CORE:%=tests/%))

test: setup ## run all tests
	.venv/bin/python -m pytest -n auto $(ARGS)

soak: setup ## run the long form of every sweep, then a million simulated messages with faults
	HELBA_SOAK=1 .venv/bin/python -m pytest -n auto $(ARGS)
	.venv/bin/python -m tests.simulation --messages 1000000

test-postgres: setup ## run the tests that touch a database on a PostgreSQL that is made for them
	@./scripts/test-postgres $(ARGS)

check: setup ## lint, format, types, layers
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/python -m mypy
	.venv/bin/lint-imports

check-core: setup ## run the fast tests without OpenFHE, on another Python
	@./scripts/check-core $(ARGS)

bench: setup ## time a round in the clear, then one on shares
	.venv/bin/helba bench plain
	.venv/bin/helba bench round $(ARGS)

# MkDocs stays below 2 (pyproject.toml), so what Material says about that version is no news.
docs: setup ## build the documentation as a site, into site/; any warning fails
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet $(ARGS)
	@echo "helba: open site/index.html"

tables: setup ## rewrite the tables and the plot of README.md and docs/ from their commands
	.venv/bin/python scripts/document $(ARGS)

lock: ## write locks/ from pyproject.toml; ARGS=--upgrade takes newer versions
	@./scripts/lock $(ARGS)

clean: ## remove .venv, the site and all caches; results/ stays
	rm -rf .venv site .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
