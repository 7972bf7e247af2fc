# make lab   sets up everything and opens the course        (PORT=8889 another port, BROWSER=no prints the address only)
# make test  sets up everything and runs every test
# Needs Python 3.11 or newer and make; everything else goes into .venv and is removed by make clean.

PYTHON ?= python3
PORT ?= 8888
BROWSER ?= yes
VENV := .venv
BIN := $(VENV)/bin
# Two BLAS threads on a busy laptop are slower than one at the sizes of this course.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: help lab test test-long test-fast notebooks check bench clean
.DEFAULT_GOAL := help

help:
	@sed -n '1,3s/^# //p' Makefile
	@echo "make test-fast | notebooks (re-execute and save) | check | bench | clean"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.12 lab"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.lab: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $(VENV)/.lab $@

lab: $(VENV)/.lab
	$(BIN)/python -m jupyter lab --config=tools/jupyter/jupyter_lab_config.py --port=$(PORT) \
	  $(if $(filter no,$(BROWSER)),--no-browser)

# Two workers, a file each at a time: the browser tests wait more than they compute.
test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long"

test-long: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m long

test-fast: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not browser and not slow and not long"

notebooks: $(VENV)/.test
	$(BIN)/python tools/notebooks.py save

check: $(VENV)/.test
	$(BIN)/python tools/notebooks.py check

bench: $(VENV)/.test
	$(BIN)/python benchmarks/course.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
