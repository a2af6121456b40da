"""A selector that is saved, loaded and pushed to the hub, under the names that Hugging Face made common."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self, Unpack, cast

from ceil_jax.selector.asking import Asking
from ceil_jax.selector.bank import Bank
from ceil_jax.selector.folder.files import load, save
from ceil_jax.selector.folder.hub import download, upload
from ceil_jax.selector.options import Settings, check_names
from ceil_jax.selector.vectors import Encodes, as_encoders


class Pretrained(Asking):
    """A selector whose bank and encoders are its own.

    Args:
        bank: the examples and their vectors.
        encoder: what embeds the bank.
        query_encoder: what embeds the queries; `encoder` by default.
        settings: see `options.Settings`.

    Raises:
        UserError: a setting that does not exist, or of the wrong type or range.
    """

    def __init__(
        self,
        bank: Bank,
        encoder: Encodes,
        query_encoder: Encodes | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.bank = bank
        self.encoder, own = as_encoders(encoder)
        self.query_encoder: Any = own if query_encoder is None else as_encoders(query_encoder)[1]

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        verify: bool = True,
        allow_import: Collection[str] = (),
        **settings: Unpack[Settings],
    ) -> Self:
        """Load what `save_pretrained` or `push_to_hub` wrote; the vectors are memory-mapped.

        Args:
            folder: a folder, or a Hugging Face hub id.
            verify: compare every file's sha256 with what was saved, which reads the files once.
            allow_import: the modules ("my_encoders"), or functions ("my_encoders:build"), that the folder of an
                encoder of your own may import. What comes from the hub never imports anything.
            settings: see `options.Settings`; they replace the saved ones.

        Raises:
            UserError: no such folder; a file missing, damaged, or of another save; an encoder that asks to import
                what is not allowed.
        """
        check_names(settings, Settings.__annotations__)
        path = Path(folder).expanduser()
        if not path.is_dir():
            # what strangers wrote imports nothing, whatever the caller allows
            path, allow_import = download(os.fspath(folder)), ()
        bank, encoders, saved = load(path, verify, allow_import)
        own = cast(Settings, vars(saved) | settings)
        return cls(bank, encoders["encoder"], encoders.get("query_encoder"), **own)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder for `from_pretrained`: JSON, parquet, npy, safetensors and a model card.

        It takes the place of a selector that was saved there before in one step: whoever loads the folder
        meanwhile, and after a crash, gets the old one or the new one, whole.

        Args:
            folder: made if need be.

        Raises:
            UserError: the folder cannot be written, or an encoder cannot be saved.
        """
        # in this order: an id may be skipped, never given twice
        view, next_id = self.bank.view, self.bank.next_id
        encoders = {"encoder": self.encoder}
        if self.query_encoder is not self.encoder:
            encoders["query_encoder"] = self.query_encoder
        save(Path(folder).expanduser(), view, next_id, encoders, self.settings)

    def push_to_hub(self, repo_id: str, *, private: bool = True, token: str | None = None) -> str:
        """Upload what `save_pretrained` writes, the examples' text with it; return the commit's address.

        Args:
            repo_id: "owner/name" on the hub.
            private: whether a repository that is made is private.
            token: the hub's token; None for the one of `hf auth login`.

        Raises:
            UserError: not logged in, no such name, or no connection.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return upload(Path(folder), repo_id, f"Selector of {len(self.bank)} examples", private, token)
