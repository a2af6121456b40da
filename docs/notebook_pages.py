"""Hook for mkdocs that makes a page of each executed notebook: its text, its code and outputs."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parents[1] / "notebooks"


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages and their figures."""
    for notebook in sorted(FOLDER.glob("*.ipynb")):
        text, figures = page(json.loads(notebook.read_text("utf-8")), notebook.stem)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=text))
        for name, content in figures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def page(notebook: Mapping[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its figures by file name."""
    parts: list[str] = []
    figures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}-{len(figures) + 1}.png"
                figures[file] = base64.b64decode(data["image/png"])
                parts.append(f"![Figure {len(figures)} of this notebook]({file})")
            else:
                printed = "".join(output.get("text", data.get("text/plain", "")))
                parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join([*parts, ""]), figures
