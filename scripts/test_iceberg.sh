#!/usr/bin/env bash
# Runs the tests that need Iceberg's own runtime for Spark, in the environment of the PySpark that it is made for.
# Without Maven or a network it says so and succeeds. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${SPARK_VENV:-.venv-spark-4.0}
ARTIFACT=${ICEBERG_ARTIFACT:-iceberg-spark-runtime-4.0_2.13}
VERSION=${ICEBERG_VERSION:-1.10.1}
JARS=$VENV/jars-$ARTIFACT-$VERSION

not_run() {
    echo "not run: $1"
    exit 0
}

command -v mvn >/dev/null || not_run "Maven (mvn) is not installed"

if [ ! -f "$JARS/.ready" ]; then
    echo "Fetching org.apache.iceberg:$ARTIFACT:$VERSION ..."
    mkdir -p "$JARS"
    mvn --quiet --batch-mode dependency:copy -Dartifact="org.apache.iceberg:$ARTIFACT:$VERSION" \
        -DoutputDirectory="$PWD/$JARS" >"$JARS/log" 2>&1 ||
        not_run "Maven could not fetch org.apache.iceberg:$ARTIFACT:$VERSION: $(grep -m1 ERROR "$JARS/log" || true)"
    touch "$JARS/.ready"
fi

ANABRANCH_ICEBERG_JAR="$(ls "$PWD/$JARS"/*.jar)"
export ANABRANCH_ICEBERG_JAR
exec "$VENV/bin/python" -m pytest tests/interop/test_iceberg_runtime.py "$@"
