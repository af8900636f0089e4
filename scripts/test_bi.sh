#!/usr/bin/env bash
# Runs a dbt project on `anabranch serve`, and in a session of its own, from an environment of its own. Where dbt cannot be
# installed it says so and succeeds. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VENV=${BI_VENV:-$PWD/.venv-bi}

not_run() {
    echo "not run: $1"
    exit 0
}

scripts/ensure_java.sh

if [ ! -f "$VENV/.ready" ] || [ pyproject.toml -nt "$VENV/.ready" ]; then
    echo "Setting up $VENV (once; some minutes) ..."
    [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' &&
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[connect]' --group dev 'dbt-core>=1.9,<1.11' 'dbt-spark[PyHive]>=1.9,<2' ||
        not_run "dbt could not be installed"
    touch "$VENV/.ready"
fi

exec "$VENV/bin/python" -m pytest tests/bi "$@"
