#!/bin/sh
# Spark needs Java 17 or newer. Finds it, installs it where that needs no question, or says how to get it.
set -u

java_of() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

major_of() {
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

is_good() {
    found=$(java_of)
    [ -n "$found" ] || return 1
    major=$(major_of "$found")
    [ "${major:-0}" -ge 17 ]
}

is_good && exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "No Java 17 or newer was found; installing Debian's package openjdk-17-jre-headless ..."
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } >/dev/null 2>&1
    is_good && exit 0
fi

found=$(java_of)
if [ -n "$found" ]; then
    echo "Spark needs Java 17 or newer, and $found is version $(major_of "$found")."
else
    echo "Spark needs Java 17 or newer, and no java was found."
fi
cat <<'MSG'
Install one of these, then run the command again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL     sudo dnf install java-17-openjdk-headless
  macOS            brew install openjdk@17
  conda            conda install -c conda-forge openjdk=17
If Java is installed elsewhere, set JAVA_HOME to its folder.
MSG
exit 1
