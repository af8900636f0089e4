#!/bin/sh
# Prepares a release: the version, the changes, a commit and a tag. What it makes is pushed by hand; a tag that begins with
# `v` is then built and published by .github/workflows/release.yml.
set -eu
version=${1:-}
python=.venv/bin/python

case $version in
    [0-9]*.[0-9]*.[0-9]*) ;;
    *) echo "Name the version: make release VERSION=0.2.0" >&2; exit 2 ;;
esac
if [ -n "$(git status --porcelain)" ]; then
    echo "Commit or remove what is not committed first; git status lists it." >&2
    exit 1
fi
if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then
    echo "The tag v$version exists already." >&2
    exit 1
fi

sed -i.before "s/^__version__ = .*/__version__ = \"$version\"/" src/anabranch/__init__.py
rm src/anabranch/__init__.py.before
"$python" -m towncrier build --yes --version "$version"
git add --all src/anabranch/__init__.py CHANGELOG.md changes
git commit --quiet --message "Release $version"
git tag --annotate "v$version" --message "anabranch $version"
echo "Made the commit and the tag v$version. To publish: git push origin HEAD v$version"
