"""What a release uploads: a source archive, the wheel that is built from it, and the wheel installed
in an environment without this folder."""

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASKED = """
import ceil_jax
selector = ceil_jax.CeilSelector.from_examples([{"input": "a", "output": "b"}], encoder="tiny")
print(ceil_jax.__file__)
print(selector.select("c", k=1).prompt)
"""


def done(*command, cwd=None):
    result = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def environment(folder, *packages):
    """The programs of a new virtual environment with these packages and nothing else."""
    done(sys.executable, "-m", "venv", "--without-pip", folder)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    done(*pip, "install", "-q", "--no-deps", "--no-compile", *packages)
    return programs


@pytest.mark.slow
@pytest.mark.packages
def test_the_archives_are_built_and_the_wheel_works_without_this_folder(tmp_path):
    builder = environment(
        tmp_path / "builder", "hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers"
    )
    done(builder / "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    [archive] = tmp_path.glob("ceil_jax-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    [source] = (tmp_path / "unpacked").iterdir()
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "docs/found.md", "experiments/results.py"):
        assert (source / name).is_file(), name
    assert not (source / ".venv").exists()

    done(builder / "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
    [wheel] = tmp_path.glob("ceil_jax-*.whl")
    with zipfile.ZipFile(wheel) as file:
        inside = {Path(name) for name in file.namelist()}
    assert {path.parts[0] for path in inside} == {
        "ceil_jax",
        f"{wheel.name.split('-py3')[0]}.dist-info",
    }
    here = {path.relative_to(ROOT) for path in (ROOT / "ceil_jax").rglob("*") if path.is_file()}
    assert {path for path in here if "__pycache__" not in path.parts} <= inside

    shutil.rmtree(tmp_path / "unpacked")
    programs = environment(tmp_path / "user", wheel)
    # the dependencies are those of this environment; its path files, and so this folder, are not read
    [site] = (tmp_path / "user").rglob("site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    printed = done(programs / "python", "-c", ASKED, cwd=tmp_path).splitlines()
    assert Path(printed[0]).is_relative_to(site)
    assert printed[1:5] == ["a", "b", "", "c"]
    assert "tune" in done(programs / "ceil-jax", "--help", cwd=tmp_path)
    assert f"## {wheel.name.split('-')[1]}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
