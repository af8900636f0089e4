#!/usr/bin/env bash
# Plays the programs of tests/differential with the delta-spark jar and writes what they give into tests/differential/answers.
# Arguments are the names of files of programs; without one all are played.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/maven.sh

. scripts/jar_environment.sh

export JAR_VERSION=$VERSION ANABRANCH_DELTA_PACKAGE="$PWD/$PACKAGE" PYTHONPATH="$PWD/src:$PWD/tests"
exec "$VENV/bin/python" tests/differential/recording.py "$@"
