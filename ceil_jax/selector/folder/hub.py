"""A selector's folder from and to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.selector.folder.content import EXAMPLES, VECTORS
from ceil_jax.selector.folder.files import LOCK
from ceil_jax.selector.folder.manifest import MANIFEST

_FORMAT_1 = [
    f"{folder}/*.{kind}" for folder in ("encoder", "query_encoder") for kind in ("json", "txt", "model")
]
_FILES = [MANIFEST, "content-*", EXAMPLES, VECTORS, *_FORMAT_1, "*encoder/*.safetensors"]


def download(name: str) -> Path:
    """Return the folder of a hub id, fetched if need be; no file of it is code.

    Raises:
        UserError: no such repository, or no connection.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=_FILES))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise UserError(
            f"{name!r} is not a folder here, and no hub id that can be fetched ({type(error).__name__})"
        ) from None


def upload(folder: Path, repo_id: str, message: str, private: bool, token: str | None) -> str:
    """Upload a saved selector in place of what the repository has; return the commit's address.

    Args:
        folder: what `files.save` wrote.
        repo_id: "owner/name"; made if need be.
        message: the commit's message.
        private: whether a repository that is made is private.
        token: the hub's token; None for the one of `hf auth login`.

    Raises:
        UserError: not logged in, no such name, or no connection.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api = HfApi(token=token)
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=message,
            ignore_patterns=[LOCK],
            delete_patterns=_FILES,
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        said = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise UserError(f"cannot push to {repo_id!r}: {said[0]}; log in with `hf auth login`?") from None
    return str(commit.commit_url)
