#!/usr/bin/env bash
# Runs the tests that need Iceberg's own runtime for Spark, in the environment of the PySpark that it is made for.
# Without Maven or a network it says so and succeeds. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/maven.sh

VENV=${SPARK_VENV:-.venv-spark-4.0}
ARTIFACT=${ICEBERG_ARTIFACT:-iceberg-spark-runtime-4.0_2.13}
VERSION=${ICEBERG_VERSION:-1.10.1}
JARS=$VENV/jars-$ARTIFACT-$VERSION

fetch "org.apache.iceberg:$ARTIFACT:$VERSION" "$JARS" -DexcludeTransitive=true

ANABRANCH_ICEBERG_JAR="$(ls "$PWD/$JARS"/*.jar)"
export ANABRANCH_ICEBERG_JAR
exec "$VENV/bin/python" -m pytest tests/interop/test_iceberg_runtime.py "$@"
