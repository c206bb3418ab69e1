# Two commands on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint ui docs strike bench memory soak ablation lock clean

demo: .venv/installed ## Replay an incident day through the Dagster assets into DuckDB and show what was found
	@$(BIN)/hotspare demo

test: lint ## Formatting, types, import contracts, and every test
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadgroup

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

ui: .venv/installed ## The Dagster UI on a simulated stream, schedules and sensors on: http://localhost:3000
	@$(BIN)/python -m pipelines.ui

docs: .venv/installed ## Write the generated pages again
	$(BIN)/python -m pipelines.docs

# What people wrote into the page stays. It ends with the versions that judged it, so other versions change its end.
strike: .venv/installed ## Write docs/lightning_strike.md and .html again: simulate, ingest, postmortem
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && \
	printf '[store]\ntelemetry = "%s/t.duckdb"\noperations = "%s/o.sqlite"\n' $$d $$d > $$d/hotspare.toml && \
	$(BIN)/hotspare simulate history/lightning_strike --to $$d/recording && \
	$(BIN)/hotspare ingest --from $$d/recording --settings $$d/hotspare.toml > $$d/ingest.txt && \
	id=$$($(BIN)/hotspare incidents list --json --settings $$d/hotspare.toml | grep -o 'inc-[0-9a-f]*' | head -n 1) && \
	for ending in md html; do \
		$(BIN)/hotspare postmortem $$id --to docs/lightning_strike.$$ending --settings $$d/hotspare.toml || exit; \
	done

bench: .venv/installed ## Costs at full size, as ratios to cluster time and to this machine's limits; minutes long
	@$(BIN)/python -m tests.benchmarks.bench_cluster $(BENCH)

memory: .venv/installed ## What ingest holds in memory, hour after hour of a full-size recording; MEMORY="--gpus 1024 --hours 1"
	@$(BIN)/python -m tests.benchmarks.memory $(MEMORY)

soak: .venv/installed ## Half an hour of serve on a real broker at the full rate, with restarts and kills; SOAK="--minutes 5 --gpus 256"
	@$(BIN)/python -m tests.benchmarks.soak $(SOAK)

ablation: .venv/installed ## Take away each threshold and memory of the detectors: a test must notice; ABLATION="gpu.xid job.hang"
	@$(BIN)/python -m tests.ablation $(ABLATION)

# Pins every version with its hashes, for every platform; no index or download address may be in it.
lock:
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-strip-extras \
		--no-header --all-extras pyproject.toml -o requirements.lock

# uv where it is there, else pip. The project itself is installed editable, without looking for anything more.
.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hotspare needs Python 3.11 or newer; set PYTHON=")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock && \
		uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
		$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock && \
		$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

clean:
	rm -rf .venv var build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
