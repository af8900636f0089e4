"""What is published: the same bytes from the same files, with everything that an installation needs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DESCRIPTION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.long
def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    """From two copies with other times of files, as `make wheel` builds."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    python = tmp_path / "venv" / "bin" / "python"
    line = re.search(r"^PUBLISHING = (.+)$", MAKEFILE, re.MULTILINE)
    assert line is not None
    tools = [tool for tool in line[1].split() if not tool.startswith("cyclonedx")]
    install = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *tools],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if install.returncode:
        pytest.skip(f"not run: the tools cannot be installed here: {install.stderr.strip().splitlines()[-1]}")
    builds = [_built(python, tmp_path / name) for name in ("first", "second")]
    assert _digests(builds[0]) == _digests(builds[1])
    [wheel] = builds[0].glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "anabranch").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources - names == set()
    assert {name.split("/")[0] for name in names} == {"anabranch", wheel.name.split("-py3")[0] + ".dist-info"}


def _built(python: Path, copy: Path) -> Path:
    ignored = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "tests", "spark-warehouse", "demo-data")
    shutil.copytree(ROOT, copy, ignore=ignored, copy_function=shutil.copy)
    subprocess.run(
        [python, "-m", "build", "--no-isolation", "--outdir", copy / "dist", copy],
        env={**os.environ, "SOURCE_DATE_EPOCH": "1790000000"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return copy / "dist"


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_the_workflows_test_what_the_package_says_it_supports() -> None:
    said = re.findall(r"Python :: (3\.\d+)", "\n".join(DESCRIPTION["project"]["classifiers"]))
    releases = re.search(r"^PYSPARK_RELEASES = (.+)$", MAKEFILE, re.MULTILINE)
    assert releases is not None
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    job = workflow[workflow.index("  sparks:") :]
    assert re.findall(r'"(3\.\d+)"', job.split("python:")[1].split("\n")[0]) == said
    assert re.findall(r'"(4\.\d+)"', job.split("spark:")[1].split("\n")[0]) == [
        release.rpartition(".")[0] for release in releases[1].split()
    ]


def test_the_workflows_agree_with_one_another_and_with_the_makefile() -> None:
    """Each action has one version, and each target of `make` exists."""
    workflows = [path.read_text("utf-8") for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
    versions: dict[str, set[str]] = {}
    for action, version in re.findall(r"uses: (\S+)@(\S+)", "\n".join(workflows)):
        versions.setdefault(action, set()).add(version)
    assert {action: pinned for action, pinned in versions.items() if len(pinned) > 1} == {}
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    nightly = re.search(r"        target:\n((?:          - .+\n)+)", "\n".join(workflows))
    assert phony is not None
    assert nightly is not None
    commands = [line.removeprefix("          - ") for line in nightly[1].splitlines()]
    commands += re.findall(r"\bmake ([a-z][^&$\n]*)", "\n".join(re.findall(r"- run: (.+)", "\n".join(workflows))))
    targets = {word for command in commands for word in re.sub(r'"[^"]*"|#.*', "", command).split() if "=" not in word}
    assert {"site", "test-lowest", "sbom", "prove"} <= targets
    assert targets <= set(phony[1].split())
