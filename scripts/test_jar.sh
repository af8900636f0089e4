#!/usr/bin/env bash
# Runs the tests that need the delta-spark jar, in an environment of their own: the jar supports another Spark than ours.
# Without Maven or a network it says so and succeeds. Arguments go to pytest; JAR_TESTS names the folder of tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/maven.sh

. scripts/jar_environment.sh

TESTS=${JAR_TESTS:-tests/interop}
ANABRANCH_DELTA_PACKAGE="$PWD/$PACKAGE"
export ANABRANCH_DELTA_PACKAGE
exec "$VENV/bin/python" -m pytest -m jar "$TESTS" "$@"
