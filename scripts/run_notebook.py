"""Runs a notebook as Jupyter does, and saves it with what it printed.

    PYTHON=.venv/bin/python .venv-docs/bin/python scripts/run_notebook.py docs/tutorial.ipynb

The kernel is of this environment, and finds anabranch and PySpark in the one of PYTHON. Both are of the same Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

SOURCE = Path(__file__).parents[1] / "src"


def main(path: Path, python: str) -> None:
    """Run the notebook in an empty folder, and write it back."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCE), packages])
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which would differ from run to run
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), os.environ["PYTHON"])
