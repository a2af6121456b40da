"""Execute the notebooks: `make notebooks` writes an .ipynb with figures beside each percent source.

Edit the sources; the tests run them, and fail where an .ipynb has other code than its source.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def executed(source: Path) -> nbformat.NotebookNode:
    """Run a notebook in an empty folder, and return it with its outputs but without times and progress bars."""
    notebook = jupytext.read(source)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, kernel_name="python3", timeout=1800, resources=resources).execute()
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # a random one would change with every run
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if for_readers(output)]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "jupytext": {"formats": "ipynb,py:percent"},
    }
    return notebook


def for_readers(output: nbformat.NotebookNode) -> bool:
    """Whether an output is a figure or was printed, and not a progress bar or the name of an object."""
    if "data" in output:
        return "image/png" in output["data"]
    return output.get("name") != "stderr"


def main(names: list[str]) -> None:
    """Execute the notebooks of these names, by default all."""
    # the kernel is another process, which has to find this package and to draw into the notebook
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]
    )
    os.environ.pop("MPLBACKEND", None)
    for source in sorted(FOLDER.glob("[0-9]*.py")):
        if not names or source.stem in names:
            nbformat.write(executed(source), source.with_suffix(".ipynb"))
            print(f"wrote {source.with_suffix('.ipynb').name}")


if __name__ == "__main__":
    main(sys.argv[1:])
