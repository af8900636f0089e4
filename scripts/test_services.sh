#!/usr/bin/env bash
# Starts Azurite, Microsoft's emulator of Azure Storage, from npm, and an HDFS of one name node and one data node, from Maven. Then
# runs the tests of storages, of concurrent writers and of Spark on them. A service that cannot be had is reported as not run.
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/maven.sh

VENV=${VENV:-.venv}
SERVICES=.venv-services
LOGS=$(mktemp -d)
mkdir -p "$SERVICES"
# Whatever was started ends with this script.
trap 'jobs -p | xargs -r kill 2>/dev/null; wait; rm -rf "$LOGS"' EXIT

free_port() {
    "$VENV/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# answers PORT SECONDS: wait until something listens there.
answers() {
    local waited
    for waited in $(seq "$2"); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
        sleep 1
    done
    return 1
}

azure() {
    command -v npm >/dev/null || { echo "not run on Azure: npm is not installed"; return; }
    if [ ! -x "$SERVICES/node_modules/.bin/azurite-blob" ]; then
        echo "Fetching Azurite ..."
        npm install --silent --no-fund --no-audit --prefix "$SERVICES" azurite@3.37.0 >"$LOGS/npm" 2>&1 ||
            { echo "not run on Azure: npm could not fetch Azurite"; return; }
    fi
    local port
    port=$(free_port)
    "$SERVICES/node_modules/.bin/azurite-blob" --silent --inMemoryPersistence --disableTelemetry --skipApiVersionCheck \
        --blobPort "$port" >"$LOGS/azurite" 2>&1 &
    answers "$port" 90 || { echo "not run on Azure: Azurite does not answer"; cat "$LOGS/azurite"; return; }
    export ANABRANCH_TEST_AZURE="http://127.0.0.1:$port/devstoreaccount1"
}

hdfs() {
    local hadoop version cluster junit port
    hadoop=$(basename "$(ls "$VENV"/lib/python3*/site-packages/pyspark/jars/hadoop-client-api-*.jar)" .jar)
    version=${hadoop#hadoop-client-api-}
    cluster=$SERVICES/jars-minicluster-$version
    junit=$SERVICES/jars-junit
    fetch "org.apache.hadoop:hadoop-client-minicluster:$version" "$cluster"
    # The cluster's class imports it, and its artifact does not depend on it.
    fetch org.junit.jupiter:junit-jupiter-api:5.11.4 "$junit"
    port=$(free_port)
    (
        cd "$LOGS"
        exec java -cp "$OLDPWD/$cluster/*:$OLDPWD/$junit/*" org.apache.hadoop.mapreduce.MiniHadoopClusterManager \
            -nomr -format -nnport "$port" -writeDetails "$LOGS/hdfs.json" >"$LOGS/hdfs" 2>&1
    ) &
    for _ in $(seq 120); do
        [ ! -f "$LOGS/hdfs.json" ] || break
        sleep 1
    done
    [ -f "$LOGS/hdfs.json" ] || { echo "not run on HDFS: the cluster does not start"; cat "$LOGS/hdfs"; return; }
    export ANABRANCH_TEST_HDFS="hdfs://127.0.0.1:$port"
}

azure
hdfs
# Pytest ends with 5 where its arguments choose none of the tests.
"$VENV/bin/python" -m pytest tests/storage/test_services.py tests/storage/test_log_store_suite.py -k "azure or hdfs" "$@" || (($? == 5))
# By itself: its session has other settings.
"$VENV/bin/python" -m pytest tests/processes/test_spark_on_stores.py -k hdfs "$@" || (($? == 5))
