# Two commands on a fresh machine: `make serve` and `make test`. `make` alone lists them all.

HOST = 127.0.0.1
PORT = 8080
VAR = var
VENV = .venv
# The environment is made with the first of these that is 3.11 or newer.
PYTHON = python3 python3.13 python3.12 python3.11
# Installs packages in the environment. uv does it in a tenth of the time: PIP='uv pip install --python $(VENV)/bin/python'.
PIP ?= $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
# Further arguments for pytest, such as ARGS="-x -k traverse".
ARGS =
# Processes in which `make test` runs the tests.
WORKERS = 2

.PHONY: help serve test test-all test-examples test-ztk test-zope test-plone test-adopted test-servers faults bench bench-frameworks bench-ci docs lint dist upload-check release clean
.DELETE_ON_ERROR:

help:
	@echo "make serve          install, and serve the site of etc/deploy.ini on http://$(HOST):$(PORT)/"
	@echo "                    (PORT=9090 another port, VAR=/some/dir another data directory)"
	@echo "make test           install, and run the tests that need no server: 2 minutes on two processors"
	@echo "make test-all       run every test, the fault experiments shortened; missing programs are listed at the end"
	@echo "make test-servers   the tests that need a browser, servers or the package index; a missing one is a failure"
	@echo "                    (PIPELINE_MATRIX=write in the environment writes the table of docs/deployments.rst)"
	@echo "make test-examples  the tests of the examples, against the wheel in a new environment"
	@echo "make test-ztk       sites of the Zope Toolkit and Grok, in an environment of their own"
	@echo "make test-zope      sites of Zope, and Zope's own tests, in an environment of their own"
	@echo "make test-plone     sites of Plone, and Plone's own tests: an hour"
	@echo "make test-adopted   Kotti and Substance D, adopted and killed, on Python 3.11: two minutes and more"
	@echo "make faults         the fault experiments at full length, which takes an hour or so"
	@echo "make bench          the benchmarks of this pipeline and its peers, in a separate environment: 15 minutes"
	@echo "make bench-frameworks   one of them: the pipeline of etc/deploy.ini beside eight frameworks, 8 minutes"
	@echo "make bench-ci       a small part of them; fails if a ratio is more than twice its budget"
	@echo "make docs           the pages of docs/, in docs/_build/html; a warning is an error"
	@echo "make lint           ruff and mypy"
	@echo "make dist           the sdist and the wheel, each tried in an empty environment"
	@echo "make release        CHANGES.rst from changes/, then make dist"
	@echo "make clean          remove the environments and caches; the data directory stays"
	@echo "PYTHON=python3.13   chooses the Python, ARGS='-x -k retry' adds to pytest's command line"

serve: $(VENV)/serve.stamp
	@error=$$($(VENV)/bin/python -c 'import socket; socket.create_server(("$(HOST)", $(PORT)))' 2>&1) || { \
	    error="$${error##*] }"; echo "make serve: $(HOST):$(PORT): $${error%% (*}." \
	        "Another port: make serve PORT=9090" >&2; exit 1; }
	@mkdir -p "$(VAR)" && data=$$(cd "$(VAR)" && pwd) && \
	database="file://$$data/Data.fs?blobstorage_dir=$$data/blobs" && \
	{ test -e "$$data/Data.fs" || $(VENV)/bin/python -c "$(MAKE_SITE)" "$$database"; } && \
	echo && echo "    The site:      http://$(HOST):$(PORT)/" && \
	echo "    Its data:      $$data" && echo "    To stop it:    Ctrl-C" && echo && \
	exec $(VENV)/bin/pipeline serve etc/deploy.ini \
	    http_host=$(HOST) http_port=$(PORT) "zodb_uri=$$database" "session_keys=$$data/session_keys"

MAKE_SITE = from pipeline_demo.site import main; raise SystemExit(main())

test: $(VENV)/test.stamp
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m $(QUICK) $(ARGS)

QUICK = "not browser and not servers and not slow and not faults"

# Servers and fault experiments are timed, so they run one by one.
test-all: test
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "(browser or slow) and not (servers or faults)" $(ARGS)
	$(VENV)/bin/python -m pytest -m "servers or faults" $(ARGS)

test-servers: $(VENV)/test.stamp
	PIPELINE_CI=1 $(VENV)/bin/python -m pytest -m "browser or servers or slow" $(ARGS)

test-examples: $(VENV)/pyvenv.cfg
	PYTHON=$(VENV)/bin/python .ci/examples

# Zope and Grok are some 90 packages. What is compared in turn is one file, which one process runs.
test-ztk:
	@$(MAKE) --no-print-directory VENV=.venv-ztk .venv-ztk/ztk.stamp
	PIPELINE_CI=1 .venv-ztk/bin/python -m pytest -n $(WORKERS) --dist loadfile \
	    tests/ztk tests/testing/test_check_ztk.py examples/grok $(ARGS)

# Zope's own tests run on plain Zope and on the pipeline. A process can have one Zope site.
test-zope:
	@$(MAKE) --no-print-directory VENV=.venv-zope .venv-zope/zope.stamp
	PIPELINE_CI=1 .venv-zope/bin/python -m pytest -n $(WORKERS) --dist loadfile tests/zope_sites \
	    --ignore=tests/zope_sites/test_conflicts.py $(ARGS)
	PIPELINE_CI=1 .venv-zope/bin/python -m pytest -n 0 tests/zope_sites/test_conflicts.py $(ARGS)

# Plone's own tests run on plain Zope and on the pipeline, one suite at a time.
test-plone:
	@$(MAKE) --no-print-directory VENV=.venv-plone .venv-plone/plone.stamp
	PIPELINE_CI=1 .venv-plone/bin/python -m pytest -n 0 tests/plone_sites $(ARGS)

# Kotti and Substance D in the pipeline that `pipeline adopt` writes. Their packages of old run on Python 3.11.
test-adopted:
	@PIP_CONSTRAINT=$(OLD) PIP_BUILD_CONSTRAINT=$(OLD) UV_BUILD_CONSTRAINT=$(OLD) \
	    $(MAKE) --no-print-directory VENV=.venv-adopted PYTHON=python3.11 .venv-adopted/adopted.stamp
	PIPELINE_CI=1 .venv-adopted/bin/python -m pytest -n 0 -s -p no:kotti tests/adopted_sites $(ARGS)

# cryptacular is not compiled by the setuptools of today. Old pip, new pip and uv each read another variable.
OLD = $(CURDIR)/tests/adopted_sites/constraints.txt

faults: $(VENV)/test.stamp
	PIPELINE_CI=1 PIPELINE_FAULTS=full $(VENV)/bin/python -m pytest tests/faults $(FULL_LENGTH) $(ARGS)

# The other tests that run longer at full length.
FULL_LENGTH = $(patsubst %,tests/servers/test_%.py,add_instance draining galera killed_servers mistakes_in_a_browser pgbouncer refused_bodies reload restarts rolling_update slow_clients top)
FULL_LENGTH += tests/servers/test_throughput.py tests/forms/test_sent.py

# The peers need an environment of their own.
bench:
	@$(MAKE) --no-print-directory VENV=.venv-bench .venv-bench/bench.stamp
	.venv-bench/bin/python -m bench $(ARGS)

bench-frameworks:
	@$(MAKE) --no-print-directory bench ARGS=frameworks

bench-ci:
	@$(MAKE) --no-print-directory VENV=.venv-bench-ci .venv-bench-ci/bench-ci.stamp
	.venv-bench-ci/bin/python -m bench ci

docs:
	@$(MAKE) --no-print-directory VENV=.venv-docs .venv-docs/docs.stamp
	.venv-docs/bin/sphinx-build -q -W -n --keep-going -b html docs docs/_build/html
	@echo "The pages: file://$(CURDIR)/docs/_build/html/index.html"

lint: $(VENV)/lint.stamp
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy

# The sdist and the wheel, with a bill of materials, each tried in an empty environment.
dist: $(VENV)/pyvenv.cfg
	rm -rf dist
	PYTHON=$(VENV)/bin/python .ci/make-dist dist
	PYTHON=$(VENV)/bin/python .ci/try-dist dist/*.tar.gz dist/*.whl

# Set __version__ in src/pipeline/__init__.py to that of the release first. What this writes is committed and tagged by hand, and
# `make dist` at the tag builds what is uploaded. The next commit sets __version__ to that of the next release, with ".dev0".
# Fails while pyproject.toml lacks an address of the project.
upload-check:
	@$(firstword $(PYTHON)) .ci/upload-check

release: $(VENV)/release.stamp
	$(VENV)/bin/towncrier build --yes \
	    --version "$$($(VENV)/bin/python -W ignore -c 'import pipeline; print(pipeline.__version__)')"
	$(MAKE) dist
	@echo "Look at CHANGES.rst and dist/, commit, tag, and run: make dist"

clean:
	rm -rf .venv .venv-* build dist src/*.egg-info examples/*/src/*.egg-info .mypy_cache .pytest_cache .ruff_cache
	find src tests examples -name __pycache__ -prune -exec rm -rf {} +

# The environment and its packages: installed once, and again when setup.py or that of the demo changes.

# The site of etc/deploy.ini.
DEMO = -e examples/demo
INSTALL_serve = -e . $(DEMO)
INSTALL_test = -e '.[test,databases]' $(DEMO)
INSTALL_lint = -e '.[test,databases,lint]' $(DEMO)
INSTALL_release = -e '.[release]'
INSTALL_docs = -e '.[docs]'
INSTALL_ztk = -e '.[ztk,ztk-test]' -r tests/ztk/address_book/requirements.txt
INSTALL_zope = -e '.[zope-test]' 'Zope==6.3'
INSTALL_plone = -e '.[zope-test]' -r tests/plone_sites/requirements.txt
INSTALL_adopted = -e '.[testing]' -r tests/adopted_sites/requirements.txt
INSTALL_bench = -e ".[sql]" $(DEMO) -r bench/requirements.txt
INSTALL_bench-ci = -e . $(DEMO) -r bench/requirements-ci.txt

$(VENV)/%.stamp: setup.py examples/demo/pyproject.toml $(VENV)/pyvenv.cfg
	@echo "Installing in $(VENV): $(INSTALL_$*)    This takes about a minute, once."
	@$(PIP) $(INSTALL_$*)
	@touch $@

$(VENV)/pyvenv.cfg:
	@for python in $(PYTHON); do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    "$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
	        echo "$$python has no venv (on Debian: apt install python3-venv)" >&2; continue; }; \
	    echo "Making $(VENV) with $$("$$python" --version)."; \
	    exec "$$python" -m venv --clear $(VENV); \
	done; \
	echo "Python 3.11 or newer with venv is needed; tried: $(PYTHON). Name yours: make serve PYTHON=/path/to/python" >&2; \
	exit 1

# An environment is made again if it was moved, if its Python is gone, or if PYTHON names another version.
ifneq ($(origin PYTHON),file)
THE_ONE_ASKED_FOR = && test "$$($(VENV)/bin/python -V)" = "$$($(PYTHON) -V)"
endif
ifneq ($(shell grep -qsF "$(CURDIR)/$(VENV)" $(VENV)/pyvenv.cfg && $(VENV)/bin/python -c '' $(THE_ONE_ASKED_FOR) && echo sound),sound)
.PHONY: $(VENV)/pyvenv.cfg
endif
