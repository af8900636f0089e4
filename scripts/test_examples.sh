#!/usr/bin/env bash
# Runs delta-spark's example programs, unchanged, by `anabranch run`. EXAMPLES names where they come from: a clone of
# delta-io/delta, bare or not, or what git can clone. Where they cannot be had it says so and succeeds. Arguments go to
# pytest.
set -uo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-.venv/bin/python}
EXAMPLES=${EXAMPLES:-https://github.com/delta-io/delta}
FOLDER=examples/python

not_run() {
    echo "not run: $1"
    exit 0
}

command -v git >/dev/null || not_run "git is not installed"
scripts/ensure_java.sh
fetched=$(mktemp -d)
trap 'rm -rf "$fetched"' EXIT

if [ -d "$EXAMPLES" ]; then
    source=$EXAMPLES
else
    source=$fetched/clone
    git clone --quiet --depth 1 --filter=blob:none --no-checkout "$EXAMPLES" "$source" 2>"$fetched/log" ||
        not_run "$EXAMPLES could not be cloned: $(tail -1 "$fetched/log")"
fi
mkdir "$fetched/examples"
for file in $(git -C "$source" ls-tree --name-only HEAD "$FOLDER/" 2>"$fetched/log" | grep '\.py$'); do
    git -C "$source" show "HEAD:$file" >"$fetched/examples/$(basename "$file")" 2>"$fetched/log" ||
        not_run "$file of $EXAMPLES could not be read: $(tail -1 "$fetched/log")"
done
[ -n "$(ls "$fetched/examples")" ] || not_run "there is no $FOLDER in $EXAMPLES: $(tail -1 "$fetched/log")"

ANABRANCH_EXAMPLES=$fetched/examples "$PYTHON" -m pytest tests/auto/test_delta_examples.py "$@"
