#!/bin/sh
# Spark needs Java 17 or newer. Finds it, installs it where that needs no question, or says how to get it.
set -u

check() {
    "${PYTHON:-python3}" "${0%/*}/../src/anabranch/java_search.py"
}

message=$(check 2>&1) && exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "No Java 17 or newer was found; installing Debian's package openjdk-17-jre-headless ..."
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } >/dev/null 2>&1
    check 2>/dev/null && exit 0
fi

echo "$message"
exit 1
