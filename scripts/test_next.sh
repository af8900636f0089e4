#!/usr/bin/env bash
# Runs the tests of what later Sparks may change on the newest PySpark that pip offers, previews included, and says what moved:
# our classes are compiled for it, and each place of Spark's that they use has a test.
# NEXT names another release. Arguments are tests.
set -euo pipefail
cd "$(dirname "$0")/.."

not_run() {
    echo "not run: $1"
    exit 0
}

PYTHON=${PYTHON:-python3}
VENV=.venv-next
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }

newest=$(pip index versions --pre pyspark 2>/dev/null | sed -n '1s/.*(\(.*\)).*/\1/p')
NEXT=${NEXT:-$newest}
[ -n "$NEXT" ] || not_run "pip cannot list the releases of PySpark"
tested=$(sed -n 's/^PYSPARK_RELEASES = //p' Makefile)
case " $tested " in
*" $NEXT "*) not_run "the newest PySpark is $NEXT, on which make test runs" ;;
esac

echo "PySpark $NEXT (make test runs on $tested)"
pip install --quiet --upgrade 'pip>=25.1' &&
    pip install --quiet -c constraints.txt -e '.[connect,demo,iceberg]' --group dev || not_run "our packages cannot be installed"
# Behind our packages, since pyproject.toml may not accept it yet.
pip install --quiet --pre "pyspark==$NEXT" || not_run "PySpark $NEXT cannot be installed"

echo "What moved:"
# A release after those of pyproject.toml is no error, but a warning.
"$VENV/bin/python" -m pytest -q --tb=line -W "ignore:PySpark" "$@" && echo "nothing"
