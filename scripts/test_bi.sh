#!/usr/bin/env bash
# Runs a dbt project on `anabranch serve` and in a session of its own, and Apache Superset on `anabranch serve`. dbt and
# Superset have an environment each, as their pins exclude one another. What cannot be installed is told, and not run.
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VENV=${BI_VENV:-$PWD/.venv-bi}
SUPERSET_VENV=${SUPERSET_VENV:-$PWD/.venv-superset}

# Superset leaves open most of what it needs, and later releases of that break it: it gets those of its own time. Of
# what it imports, cachetools is not among its requirements.
SUPERSET=('apache-superset==6.1.0' cachetools pyhive thrift thrift-sasl pure-sasl)
SUPERSET_TIME=2026-06-01

scripts/ensure_java.sh

# Whether the environment in a folder was made, and after the files that say what is in it.
is_ready() {
    local made="$1/.ready"
    shift
    [ -f "$made" ] || return 1
    for file in "$@"; do [ "$file" -nt "$made" ] && return 1; done
    return 0
}

# What pip is told goes into the environment in a folder, which is made where it is missing.
install() {
    rm -f "$1/.ready"
    [ -x "$1/bin/python" ] || "$PYTHON" -m venv "$1" || return
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=26' || return
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
}

if ! is_ready "$VENV" pyproject.toml; then
    echo "Setting up $VENV (once; some minutes) ..."
    if install "$VENV" -e '.[connect]' --group dev 'dbt-core>=1.9,<1.11' 'dbt-spark[PyHive]>=1.9,<2'; then
        touch "$VENV/.ready"
    else
        echo "not run: dbt, which could not be installed with $("$PYTHON" --version); pip's reason is above"
        install "$VENV" -e '.[connect]' --group dev
    fi
fi

if ! is_ready "$SUPERSET_VENV" scripts/test_bi.sh; then
    echo "Setting up $SUPERSET_VENV (once; some minutes) ..."
    if install "$SUPERSET_VENV" --uploaded-prior-to "$SUPERSET_TIME" "${SUPERSET[@]}"; then
        touch "$SUPERSET_VENV/.ready"
    else
        echo "not run: Superset, which could not be installed with $("$PYTHON" --version); pip's reason is above"
    fi
fi
if [ -f "$SUPERSET_VENV/.ready" ]; then export ANABRANCH_SUPERSET="$SUPERSET_VENV/bin"; fi

exec "$VENV/bin/python" -m pytest tests/bi "$@"
