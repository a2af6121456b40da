"""The selector: a live bank, its encoders and λ behind one `select`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.selector.bank import Bank
from ceil_jax.selector.card import Card
from ceil_jax.selector.choice import CountTokens, Filter, Options, Selection, Wish, choose
from ceil_jax.selector.rows import Row, read_examples, read_queries
from ceil_jax.tasks.example import Context, Example, Template, context_text

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder

DEFAULT_TEMPLATE = Template("{input}\n{output}", separator="\n\n")

PROGRESS_FROM = 2000
"""Texts; encoding so many takes long enough for a progress bar."""

QUERIES_AT_ONCE = 64
"""Queries scored against the bank in one matrix product."""


class CeilSelector:
    """Chooses in-context examples from a live bank by greedy MAP of the conditional DPP.

    Every method may be called from any thread: a selection sees the bank as it was when it began.

    Attributes:
        diversity: λ; small weighs relevance, large diversity.
        shortlist: n, the nearest examples among which to choose.
        template: how an example stands in a prompt.
        context: what the encoder sees of a bank example, its input or its output as well; queries are inputs.
        count_tokens: texts to token counts; a token budget needs it. It is not saved.
        card: what the model card says.
    """

    def __init__(
        self,
        bank: Bank,
        encoder: Encoder,
        query_encoder: Encoder | None = None,
        *,
        diversity: float = 0.05,
        shortlist: int = 100,
        template: Template | str = DEFAULT_TEMPLATE,
        context: Context = "input",
        count_tokens: CountTokens | None = None,
        card: Card | None = None,
    ) -> None:
        self.bank = bank
        self.encoder, self.query_encoder = encoder, query_encoder or encoder
        self.diversity, self.shortlist = _positive("diversity", diversity), _count("shortlist", shortlist)
        self.template = Template(template) if isinstance(template, str) else template
        if context not in ("input", "example"):
            raise unknown_name("context", str(context), ("input", "example"))
        self.context = context
        self.count_tokens = count_tokens
        self.card = card or Card()

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[Row],
        *,
        encoder: Encoder | str,
        query_encoder: Encoder | str | None = None,
        vectors: np.ndarray | None = None,
        **settings: Any,
    ) -> CeilSelector:
        """A selector from nothing but examples and an encoder; `pipeline.Pipeline.selector` makes trained ones.

        Args:
            examples: Example or {"input": …, "output": …}; other keys but id, choices and references are
                metadata for filters and templates. Those without an id get a number.
            encoder: an Encoder or what `load_encoder` takes; it embeds the bank, and the queries too unless
                `query_encoder` is given.
            vectors: of the examples, [N, D], where they are known already.
            settings: diversity, shortlist, template, context, count_tokens, card: see the class.

        Raises:
            UserError: a row that is no example, two equal ids, vectors that do not fit.
        """
        loaded = None if query_encoder is None else _loaded(query_encoder)
        selector = cls(Bank([], np.zeros((0, 0), np.float32)), _loaded(encoder), loaded, **settings)
        rows = read_examples(examples)
        if vectors is None:
            selector.add(rows)
        else:
            selector.bank.add(rows, _checked(vectors, selector._texts(rows), None))
        return selector

    def with_examples(self, examples: Iterable[Row]) -> CeilSelector:
        """A selector of other examples by the same encoders and settings, but for the template, which may name
        fields that only these examples have."""
        return type(self).from_examples(
            examples,
            encoder=self.encoder,
            query_encoder=self.query_encoder,
            diversity=self.diversity,
            shortlist=self.shortlist,
            context=self.context,
            count_tokens=self.count_tokens,
        )

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, verify: bool = True, **settings: Any) -> CeilSelector:
        """The selector that `save_pretrained` or `push_to_hub` wrote; its vectors are memory-mapped.

        Args:
            folder: a folder, or a Hugging Face hub id.
            verify: compare the files' sha256 with what was saved, which reads them once.
            settings: as in `from_examples`, in place of the saved ones.

        Raises:
            UserError: no such folder, or a file missing, damaged, or of another save.
        """
        from ceil_jax.selector.files import load

        return load(cls, folder, verify, settings)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder for `from_pretrained`: JSON, parquet, npy, safetensors and a model card."""
        from ceil_jax.selector.files import save

        save(self, Path(folder))

    def push_to_hub(self, repo_id: str, *, private: bool = True, token: str | None = None) -> str:
        """Upload what `save_pretrained` writes, the examples' text with it; the commit's address."""
        from ceil_jax.selector.files import push

        return push(self, repo_id, private, token)

    def __len__(self) -> int:
        return len(self.bank)

    @property
    def examples(self) -> list[Example]:
        """The bank, in the order it was added."""
        return list(self.bank.view)

    def add(self, examples: Iterable[Row]) -> list[str]:
        """Embed examples and add them to the bank; their ids.

        Raises:
            UserError: a row that is no example, an id that is there already; nothing is added.
        """
        rows = read_examples(examples)
        # encoding takes long and comes first: the bank's lock is held for the appending alone
        return self.bank.add(rows, _embed(self.encoder, self._texts(rows), self.bank.view.dim))

    def remove(self, ids: str | Iterable[str]) -> None:
        """Take examples out of the bank.

        Raises:
            UserError: an id that is not there; nothing is removed.
        """
        self.bank.remove([ids] if isinstance(ids, str) else ids)

    def select(self, query: str | Row, **options: Unpack[Options]) -> Selection:
        """The examples for one query: `select(text, k=8)`.

        The nearest `shortlist` examples that pass the filter, no two of them equal, are chosen from by greedy
        MAP until there are k or no other fits the token budget; one of the two must be given. What does not fit is
        passed over; a set for which nothing was is the MAP set of its size, DPP-MAP's of `build_retriever`. With
        `balance="label"` each output has an equal share of the shortlist, and each step chooses among the
        outputs chosen least often.

        Args:
            query: a text; or a mapping or Example with an input, and the fields that the template names. An
                example of the bank (by id) is not chosen for itself.
            options: k, token_budget, diversity, filter, balance: see `Options`.

        Raises:
            UserError: neither k nor a budget, either no whole number, a budget without `count_tokens`, a filter
                on a field that no example has, balance over more outputs than the shortlist is long.
        """
        return self.select_many([query], **options)[0]

    def select_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select` for each query, all of the same state of the bank; they are encoded together."""
        asked = read_queries(queries)
        wish = self._wish(**options)
        view = self.bank.view
        vectors = _embed(self.query_encoder, [query.input for query in asked], view.dim)
        selections = []
        for start in range(0, len(asked), QUERIES_AT_ONCE):
            block = slice(start, start + QUERIES_AT_ONCE)
            for query, cosines in zip(asked[block], view.cosines(vectors[block]), strict=True):
                selections.append(choose(view, query, cosines, wish))
        return selections

    async def aselect(self, query: str | Row, **options: Unpack[Options]) -> Selection:
        """`select` in a worker thread."""
        return await asyncio.to_thread(self.select, query, **options)

    async def aselect_many(self, queries: Sequence[str | Row], **options: Unpack[Options]) -> list[Selection]:
        """`select_many` in a worker thread."""
        return await asyncio.to_thread(self.select_many, queries, **options)

    def _texts(self, rows: Iterable[Example]) -> list[str]:
        return [context_text(row, self.context) for row in rows]

    def _wish(
        self,
        k: int | None = None,
        token_budget: int | None = None,
        diversity: float | None = None,
        filter: Filter | None = None,
        balance: str | None = None,
    ) -> Wish:
        if k is None and token_budget is None:
            raise UserError("select needs k=… (examples), token_budget=… (tokens) or both")
        if token_budget is not None and self.count_tokens is None:
            raise UserError(
                "token_budget needs the tokenizer of your language model: give the selector count_tokens=…, a "
                "function from texts to token counts, such as load_lm(…).count_tokens or "
                "lambda texts: [len(tokenizer.encode(text)) for text in texts]"
            )
        if balance not in (None, "label"):
            raise unknown_name("balance", str(balance), ("label",))
        return Wish(
            None if k is None else _count("k", k),
            None if token_budget is None else _count("token_budget", token_budget, least=0),
            self.diversity if diversity is None else _positive("diversity", diversity),
            filter,
            balance is not None,
            self.shortlist,
            self.template,
            self.count_tokens,
        )


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise UserError(f"{name} is {value!r}; expected a number above 0")
    return float(value)


def _count(name: str, value: Any, least: int = 1) -> int:
    if not isinstance(value, (int, np.integer)) or value < least:
        raise UserError(f"{name} is {value!r}; expected a whole number from {least}")
    return int(value)


def _loaded(encoder: Any) -> Encoder:
    if not isinstance(encoder, (str, Path)):
        return encoder
    from ceil_jax.encoders.registry import load_encoder

    return load_encoder(encoder)


def _embed(encoder: Encoder, texts: Sequence[str], dim: int | None) -> np.ndarray:
    if not texts:
        return np.zeros((0, dim or 0), np.float32)
    # a small bank, and any encoder with no more than `encode(texts)`, needs no bar
    shown = {"progress": True} if len(texts) >= PROGRESS_FROM and hasattr(encoder, "fingerprint") else {}
    return _checked(encoder.encode(texts, **shown), texts, dim)


def _checked(vectors: np.ndarray, texts: Sequence[str], dim: int | None) -> np.ndarray:
    """The vectors as float32 unit rows."""
    try:
        vectors = np.asarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise UserError(
            f"vectors of several lengths, or not of numbers; expected ({len(texts)}, {dim or 'D'})"
        ) from None
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] != (dim or vectors.shape[1]):
        raise UserError(
            f"vectors of shape {vectors.shape} for {len(texts)} texts; expected ({len(texts)}, {dim or 'D'})"
            + (": the bank was embedded by an encoder of that size" if dim else "")
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise UserError(f"the vector of text {bad + 1} ({texts[bad][:60]!r}) is not finite")
    return unit_rows(vectors)
