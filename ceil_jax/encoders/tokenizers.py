"""Tokenizers, which turn texts into padded arrays of token ids of few distinct lengths."""

from __future__ import annotations

import bisect
import hashlib
import json
import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from tokenizers import Tokenizer as Backend

from ceil_jax.errors import UserError
from ceil_jax.store.folder import write_json
from ceil_jax.store.locking import write

if TYPE_CHECKING:
    import jax

LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Lengths to which batches are padded: every new shape costs a compilation, and every padding token
costs time."""

LENGTHS_ALONE = (16, 32, 64, 128, 256, 512)
"""Lengths to which a single text is padded, such as the query of a service: fewer, so that a service
soon has compiled all of them."""

TRAINING_LENGTHS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 256, 512)
"""Lengths of training batches: finer below 96, because padding is expensive there, and coarser
above, because a training step takes longer to compile."""


class Tokens(NamedTuple):
    """A batch of tokenised texts, padded on the right, int32 [N, T] twice.

    The mask is 0 for padding, else 1.
    """

    ids: np.ndarray | jax.Array
    mask: np.ndarray | jax.Array


@runtime_checkable
class Tokenizer(Protocol):
    """The tokenizer that an encoder needs."""

    @property
    def pad_id(self) -> int:
        """The id of padding tokens."""

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the tokenizer would give any text other ids.

        Vectors are cached under it.
        """

    def __call__(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Return the ids of each text, special tokens included, cut to `max_length`."""


@dataclass(frozen=True)
class HashingTokenizer:
    """A tokenizer whose ids are hashes of words: it has no vocabulary, and nothing is downloaded.

    A word is a lower-cased run of word characters, or another single character. Id 0 pads and id 1
    starts a text.

    >>> HashingTokenizer(vocab_size=100)(["A film, a FILM"], max_length=4)
    [[1, 41, 26, 78]]
    """

    vocab_size: int = 4096
    pad_id: int = 0

    @property
    def fingerprint(self) -> str:
        return repr(self)

    def __call__(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        return [self._ids(text)[:max_length] for text in texts]

    def _ids(self, text: str) -> list[int]:
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        return [1, *(self._id(word) for word in words)]

    def _id(self, word: str) -> int:
        return 2 + zlib.crc32(word.encode()) % (self.vocab_size - 2)


class PretrainedTokenizer:
    """The tokenizer of a Hugging Face folder.

    It has the prefix and the lower-casing of the checkpoint.

    Args:
        tokenizer: the tokenizer in `tokenizer.json`.
        pad_id: the id of padding tokens.
        prefix: put before every text.
        lower_case: whether texts are lower-cased.
        config: the entries of `tokenizer_config.json` that are written back.
    """

    def __init__(
        self,
        tokenizer: Backend,
        pad_id: int,
        prefix: str = "",
        lower_case: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.backend = tokenizer
        self.pad_id = pad_id
        self.prefix = prefix
        self.lower_case = lower_case
        self.config = dict(config or {})

    @property
    def fingerprint(self) -> str:
        content = json.loads(self.backend.to_str())
        # these two contain the options of the last call
        del content["truncation"], content["padding"]
        described = json.dumps([self.prefix, self.lower_case, content], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()

    def with_prefix(self, prefix: str) -> PretrainedTokenizer:
        """Return this tokenizer with another prefix."""
        return PretrainedTokenizer(self.backend, self.pad_id, prefix, self.lower_case, self.config)

    def __call__(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        texts = [self.prefix + text for text in texts]
        if self.lower_case:
            texts = [text.lower() for text in texts]
        with failures("the encoder's tokenizer fails"), _truncating:
            self.backend.no_padding()
            side = self.config.get("truncation_side", "right")
            self.backend.enable_truncation(max_length, direction=side)
            ids = [encoding.ids for encoding in self.backend.encode_batch(texts)]
            if any(len(ids_of_text) > max_length for ids_of_text in ids):
                raise ValueError(f"more than {max_length} tokens after cutting a text to them")
        return ids

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, which transformers reads."""
        with _truncating:
            self.backend.no_padding()
            self.backend.no_truncation()
            content = self.backend.to_str(pretty=True)
        write(folder / "tokenizer.json", content.encode())
        write_json(
            folder / "tokenizer_config.json",
            {**self.config, "tokenizer_class": "PreTrainedTokenizerFast"},
        )


_truncating = threading.Lock()
"""The lock that is held while a tokenizer is set to the length of one call."""


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Turn any failure of the tokenizers library inside the block into a UserError.

    The message begins with `what`. The library raises plain Exceptions, and after a Rust panic an
    error that is not an Exception.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{what} ({reason:.160}); take another checkpoint") from None


def padded_length(longest: float, max_length: int, lengths: Sequence[int] = LENGTHS) -> int:
    """Return the length to which `longest` tokens are padded.

    The next one in `lengths`, at most `max_length`.
    """
    position = bisect.bisect_left(lengths, longest)
    return min(lengths[position], max_length) if position < len(lengths) else max_length


def batches(
    lengths: Sequence[int], batch_size: int, max_length: int
) -> Iterator[tuple[np.ndarray, tuple[int, int]]]:
    """Group texts of similar length, in tokens, into batches of a few shapes.

    The longest come first, so that a progress bar overestimates rather than underestimates the
    remaining time. No text is padded to more than about twice its length. A batch has `batch_size`
    rows, in proportion fewer beyond 128 tokens, or a power of four if fewer texts are left. A single
    text has one of the lengths in LENGTHS_ALONE. Yields the positions of the texts of each batch, and
    its shape (rows, length).
    """
    if len(lengths) == 1:
        yield np.zeros(1, np.int64), (1, padded_length(lengths[0], max_length, LENGTHS_ALONE))
        return
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    while len(order):
        length = padded_length(lengths[order[0]], max_length)
        # fewer rows beyond 128 tokens
        most = max(1, batch_size * 128 // max(length, 128))
        # texts that are not padded to more than twice their length, or to the shortest length
        count = sum(2 * lengths[i] >= length or length <= LENGTHS[0] for i in order[:most])
        rows = 1
        while rows < count:
            rows *= 4
        yield order[:count], (min(rows, most), length)
        order = order[count:]


def pad(ids: Sequence[Sequence[int]], length: int, pad_id: int, rows: int | None = None) -> Tokens:
    """Return token ids padded to int32 arrays [rows, length].

    Args:
        ids: the token ids of each text, at most `length` of them.
        length: tokens of a row.
        pad_id: fills up the rows.
        rows: number of rows, by default one for each text; further rows are all padding.

    >>> pad([[5, 6], [7]], length=3, pad_id=0).ids.tolist()
    [[5, 6, 0], [7, 0, 0]]
    """
    shape = (len(ids) if rows is None else rows, length)
    padded = np.full(shape, pad_id, np.int32)
    mask = np.zeros(shape, np.int32)
    for row, text in enumerate(ids):
        padded[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return Tokens(padded, mask)
