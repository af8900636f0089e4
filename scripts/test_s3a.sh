#!/usr/bin/env bash
# Runs the tests in which Spark reads and writes data files on S3, by the connector of its own Hadoop's version.
# Without Maven or a network it says so and succeeds. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${VENV:-.venv}
HADOOP=$(basename "$(ls "$VENV"/lib/python3*/site-packages/pyspark/jars/hadoop-client-api-*.jar)" .jar)
VERSION=${HADOOP#hadoop-client-api-}
JARS=$VENV/jars-hadoop-aws-$VERSION

not_run() {
    echo "not run: $1"
    exit 0
}

command -v mvn >/dev/null || not_run "Maven (mvn) is not installed"

if [ ! -f "$JARS/.ready" ]; then
    echo "Fetching org.apache.hadoop:hadoop-aws:$VERSION (once; 700 MB) ..."
    mkdir -p "$JARS"
    cat >"$JARS/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>anabranch</groupId>
  <artifactId>test-s3a</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.hadoop</groupId>
      <artifactId>hadoop-aws</artifactId>
      <version>$VERSION</version>
    </dependency>
  </dependencies>
</project>
POM
    mvn --quiet --batch-mode --file "$JARS/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$PWD/$JARS" >"$JARS/log" 2>&1 ||
        not_run "Maven could not fetch org.apache.hadoop:hadoop-aws:$VERSION: $(grep -m1 ERROR "$JARS/log" || true)"
    touch "$JARS/.ready"
fi

ANABRANCH_S3A_JARS="$(ls "$PWD/$JARS"/*.jar | paste -sd,)"
export ANABRANCH_S3A_JARS
exec "$VENV/bin/python" -m pytest tests/processes/test_spark_on_s3.py "$@"
