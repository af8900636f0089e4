#!/usr/bin/env bash
# Lets writers of several engines work on the same tables and judges what they recorded: tests/judge/judging_engines.py.
# An engine that cannot be installed here is not run, with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
SAIL=.venv-sail
# Sail is a server of Spark Connect, and its clients need PySpark's.
SAIL_PACKAGES="pysail==0.7.2 pyspark-client==4.1.1 pyarrow setuptools<80"

if [ ! -f "$SAIL/.ready" ]; then
    echo "Setting up $SAIL (once) ..."
    [ -x "$SAIL/bin/python" ] || "$PYTHON" -m venv "$SAIL"
    # shellcheck disable=SC2086
    "$SAIL/bin/python" -m pip install --quiet --disable-pip-version-check $SAIL_PACKAGES && touch "$SAIL/.ready" || true
fi
if [ -f "$SAIL/.ready" ]; then
    export JUDGE_SAIL_PYTHON="$PWD/$SAIL/bin/python"
else
    export JUDGE_NO_SAIL="pysail could not be installed"
fi

# The jar's scripts end the shell where something is missing, so they run in one of their own.
jar=$(bash -c 'set -euo pipefail; . scripts/maven.sh; . scripts/jar_environment.sh; echo "$PWD/$VENV/bin/python $ANABRANCH_JARS"' | tail -n 1)
case $jar in
/*) export JUDGE_JAR_PYTHON=${jar% *} ANABRANCH_JARS=${jar#* } ;;
*) export JUDGE_NO_JAR=${jar#not run: } ;;
esac

export PYTHONPATH=src:tests:judge/src
exec .venv/bin/python -m judge.judging_engines
