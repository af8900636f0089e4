#!/usr/bin/env bash
# The house rebuilt, by the tables beside this file: modules moved and merged, names changed, pages put in place.
# Run it on a clean checkout with an environment in .venv; then run everything. docs/design/house.md says what and why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
python=.venv/bin/python
$python "$here/plan.py" . "$here/layout.txt"
$python "$here/move.py" . "$here/layout.txt"
$python "$here/post.py" .
$python "$here/rename.py" . "$here/renames.txt"
cp -r "$here"/new/* .
.venv/bin/ruff check --fix -q . || true
.venv/bin/ruff format -q .
.venv/bin/ruff check .
.venv/bin/mypy
$python "$here/cycles.py" .
$python "$here/fold.py" .
$python scripts/make_reference.py
$python -m pytest -q tests/test_house.py tests/test_layers.py tests/test_imports.py
