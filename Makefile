# Each target makes .venv and installs what it needs. PYTHON and VENV choose others.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
unexport PYTHONDONTWRITEBYTECODE # a hundred processes of the tests import the package

python = $(VENV)/bin/python
# Without compiling thousands of modules that nobody imports: those that are, are compiled then.
install = $(python) -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo demo-mpi docs test test-all lint lint-format lint-rules lint-types clean

demo: $(VENV)/.installed-plot ## fit the lynx and hare data, write a plot
	$(python) examples/lynx_hare.py

demo-mpi: $(VENV)/.installed-mpi ## two programs on two processes each, and a plot
	$(VENV)/bin/mpiexec -n 2 $(python) examples/mpi_regression.py
	$(VENV)/bin/mpiexec -n 2 $(python) examples/mpi_wave_inversion.py

test: $(VENV)/.installed-test ## the tests that find nearly everything, on all cores
	$(python) -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

test-all: $(VENV)/.installed-test ## every test
	$(python) -m pytest -n auto --dist worksteal --all $(PYTEST_ARGS)

docs: $(VENV)/.installed-docs ## the site, in build/site: runs the examples
	$(python) -m sphinx -W --keep-going -q -b html docs build/site

lint: lint-format lint-rules lint-types ## format, rules, types

lint-format: $(VENV)/.installed-lint
	$(python) -m ruff format --check --quiet

lint-rules: $(VENV)/.installed-lint
	$(python) -m ruff check --output-format concise

lint-types: $(VENV)/.installed-lint
	$(python) -m pyright --pythonpath $(python)

clean:
	rm -rf $(VENV) build dist docs/gallery docs/sg_execution_times.rst .pytest_cache .ruff_cache .hypothesis

$(python):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-plot: pyproject.toml | $(python)
	$(install) --editable ".[plot]"
	@touch $@

$(VENV)/.installed-mpi: pyproject.toml | $(python)
	$(install) --editable ".[plot,mpi]" mpich
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(python)
	$(install) --editable ".[docs]"
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(python)
	$(install) --editable ".[test,plot]"
	@touch $@

$(VENV)/.installed-lint: pyproject.toml | $(python)
	$(install) --editable ".[lint,test]"
	@touch $@
