#!/usr/bin/env bash
# Runs the tests in which Spark reads and writes data files on S3, by the connector of its own Hadoop's version.
# Without Maven or a network it says so and succeeds. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/maven.sh

VENV=${VENV:-.venv}
HADOOP=$(basename "$(ls "$VENV"/lib/python3*/site-packages/pyspark/jars/hadoop-client-api-*.jar)" .jar)
VERSION=${HADOOP#hadoop-client-api-}
JARS=$VENV/jars-hadoop-aws-$VERSION

fetch "org.apache.hadoop:hadoop-aws:$VERSION" "$JARS"

ANABRANCH_S3A_JARS="$(ls "$PWD/$JARS"/*.jar | paste -sd,)"
export ANABRANCH_S3A_JARS
exec "$VENV/bin/python" -m pytest tests/processes/test_spark_on_stores.py "$@"
