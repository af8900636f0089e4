# Sourced, after maven.sh: an environment with the Spark that the delta-spark jar supports, and the jar. Sets VENV, PACKAGE and
# ANABRANCH_JARS. Without Maven or a network it says so and succeeds.

PYTHON=${PYTHON:-python3}
VENV=.venv-jar
PYSPARK=${JAR_PYSPARK:-4.2.0}
ARTIFACT=${JAR_ARTIFACT:-delta-spark_4.2_2.13}
VERSION=${JAR_VERSION:-4.4.0}
JARS=$VENV/jars-$ARTIFACT-$VERSION
PACKAGE=$VENV/delta-spark-$VERSION

command -v mvn >/dev/null || not_run "Maven (mvn) is not installed"
scripts/ensure_java.sh

if [ ! -f "$VENV/.ready" ] || [ pyproject.toml -nt "$VENV/.ready" ] || [ constraints.txt -nt "$VENV/.ready" ]; then
    echo "Setting up $VENV with PySpark $PYSPARK (once; some minutes) ..."
    [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' &&
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[connect,demo,iceberg]' --group dev \
            "pyspark==$PYSPARK" ||
        not_run "the Python packages could not be installed"
    touch "$VENV/.ready"
fi

# What is Spark's own would clash with the Spark that pip installed.
fetch "io.delta:$ARTIFACT:$VERSION" "$JARS" -DincludeGroupIds=io.delta,io.unitycatalog

# Its Python package, beside the environment and not in it: there `import delta` is answered by us.
if [ ! -f "$PACKAGE/.ready" ]; then
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$PACKAGE" "delta-spark==$VERSION" ||
        not_run "delta-spark's Python package could not be installed"
    touch "$PACKAGE/.ready"
fi

ANABRANCH_JARS="$(ls "$PWD/$JARS"/*.jar | paste -sd,)"
export ANABRANCH_JARS
