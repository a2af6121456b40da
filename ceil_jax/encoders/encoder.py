"""The Flax encoder: a network, its parameters and its tokenizer."""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float
from safetensors.numpy import save_file

from ceil_jax.distributed.devices import device_mesh, filled_up, split, whole
from ceil_jax.encoders.checkpoint import Checkpoint
from ceil_jax.encoders.side_prompts import single_prompt
from ceil_jax.encoders.text_encoder import EncoderPair, TextEncoder, check_finite, check_texts
from ceil_jax.encoders.tokenizers import (
    PretrainedTokenizer,
    Tokenizer,
    Tokens,
    batches,
    pad,
    padded_length,
)
from ceil_jax.errors import UserError
from ceil_jax.store.folder import write_json
from ceil_jax.store.locking import disk_errors
from ceil_jax.store.progress import bar

log = logging.getLogger(__name__)

Params = Mapping[str, jax.Array | np.ndarray]
"""Arrays in float32 by dotted path, such as `layers.0.attention.query.kernel`."""

FACTORY_FILE = "ceil_jax.json"
"""The file of a saved encoder that names its factory, for networks that are not of a Hugging Face
family."""

HF_FILES = (
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)


_CACHED = ("fingerprint", "sides", "_on_devices")
"""Attributes that are computed on first access and depend on one encoder's parameters."""
_NOT_PICKLED = (*_CACHED, "apply", "_jitted")


class Encoder:
    """A `TextEncoder` with a network that can be trained.

    It is immutable: `with_params` returns another one.

    On a GPU or TPU, `jax_default_matmul_precision` sets the precision of its matrix products.

    Args:
        module: a Flax module called as `module(ids, mask, *, key=None)`, int32 [B, T] twice, that
            returns [B, D]; `key` turns dropout on. Its `nnx.Param`s are the parameters; any other
            state is constant. Its leaves may be shapes only (`nnx.eval_shape`) until `with_params`
            gives them values.
        tokenizer: turns texts into lists of token ids.
        max_length: longer texts are cut to this many tokens, special tokens included.
        name: the name shown in reports; by default the class of the module.
        factory: the registered name or `module:function` that makes such an encoder. Without it,
            `save_pretrained` refuses networks that are not of a Hugging Face family.
        checkpoint: the other contents of the Hugging Face folder from which it was read.

    >>> from ceil_jax.encoders.registry import load_encoder
    >>> encoder = load_encoder("tiny")
    >>> encoder.encode(["a fine film", "a dull film"]).shape == (2, encoder.dim)
    True
    """

    apply: Callable[..., Float[Array, "b d"]]
    """`apply(params, tokens, *, key=None)` returns the vectors, float32 [B, D]. It is a pure
    function, to jit and to differentiate. Dropout is on when a key is given."""

    def __init__(
        self,
        module: nnx.Module,
        tokenizer: Tokenizer,
        *,
        max_length: int,
        name: str = "",
        factory: str | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.name = name or type(module).__name__
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.factory = factory
        self.checkpoint = checkpoint
        # the network without its state, its parameters, and any other state
        self._graphdef, parameters, *self._constants = nnx.split(module, nnx.Param, ...)
        leaves = dict(nnx.to_flat_state(parameters))
        # the name of each parameter → its path in the network
        self._paths = {".".join(map(str, path)): path for path in leaves}
        self.params: Params = {name: leaves[path].get_value() for name, path in self._paths.items()}
        self._compile()
        # the shortest batch, to find out what the network returns
        self._probe = pad([[0]], padded_length(1, max_length), tokenizer.pad_id)
        self.dim: int = jax.eval_shape(self.apply, self.params, self._probe).shape[1]

    def _compile(self) -> None:
        # not a method, so that copies share the compiled function and it keeps no parameters alive
        self.apply = _apply(self._graphdef, self._constants, self._paths)
        self._jitted = jax.jit(self.apply)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle: parameters on the host, without compiled functions and caches."""
        state = {name: value for name, value in vars(self).items() if name not in _NOT_PICKLED}
        return {**state, "params": {name: np.asarray(v) for name, v in self.params.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    def __copy__(self) -> Encoder:
        """A copy that shares parameters and compiled functions."""
        return self._changed()

    def __deepcopy__(self, memo: dict[int, Any]) -> Encoder:
        """The encoder itself, because it is immutable."""
        return self

    def with_params(self, params: Params) -> Encoder:
        """Return this encoder with other parameters; the compiled functions are shared.

        Raises:
            UserError: names or shapes differ from those of `self.params`; the message names both
                sides.
        """
        check_same_shapes(self.params, params, f"parameters for {self.name}")
        return self._changed(params=params)

    def renamed(self, name: str, factory: str | None = None) -> Encoder:
        """Return this encoder with another name and, if given, another factory."""
        return self._changed(name=name, factory=factory or self.factory)

    @cached_property
    def sides(self) -> EncoderPair:
        """The encoders of queries and of bank examples.

        If the folder names prompts for them (`side_prompts`), they are two encoders with these
        weights; otherwise this encoder twice.

        The method `encode` of this encoder uses the folder's default prompt, if it has one.
        """
        prompts = None if self.checkpoint is None else self.checkpoint.prompts
        if not prompts or prompts.query == prompts.bank == prompts.default:
            return EncoderPair(self, self)
        return EncoderPair(self._prompted(prompts.query), self._prompted(prompts.bank))

    def _prompted(self, prompt: str) -> Encoder:
        assert self.checkpoint is not None
        assert isinstance(self.tokenizer, PretrainedTokenizer)
        checkpoint = replace(self.checkpoint, prompts=single_prompt(prompt))
        return self._changed(tokenizer=self.tokenizer.with_prefix(prompt), checkpoint=checkpoint)

    def _changed(self, **attributes: Any) -> Encoder:
        other = type(self).__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name not in _CACHED}
        vars(other).update(kept, **attributes)
        return other

    @property
    def module(self) -> Any:
        """The Flax module with these parameters, for inspection."""
        state = nnx.from_flat_state({path: self.params[name] for name, path in self._paths.items()})
        return nnx.merge(self._graphdef, state, *self._constants)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of a sha256 over the weights, the network and the tokenizer.

        Vectors are cached under it.

        For a network of the user's own it also covers the program and other state, so that vectors
        are computed again after an edit of `__call__`.
        """
        network = (self.checkpoint and self.checkpoint.network) or self.factory or self.name
        digest = hashlib.sha256(
            f"{network} {self.tokenizer.fingerprint} {self.max_length} float32".encode()
        )
        for name in sorted(self.params):
            value = np.ascontiguousarray(self.params[name])
            digest.update(f"{name} {value.shape} {value.dtype}".encode())
            digest.update(value.data)
        if self.checkpoint is not None:
            return digest.hexdigest()[:16]
        _add_arrays(digest, self._constants)
        program = jax.make_jaxpr(self.apply)(self.params, self._probe)
        # the text contains addresses of functions in memory
        text = re.sub(r"0x[0-9a-f]+", "", str(program))
        digest = hashlib.sha256(f"{digest.hexdigest()[:16]} {text}".encode())
        _add_arrays(digest, program.consts)
        return digest.hexdigest()[:16]

    @cached_property
    def _on_devices(self) -> Params:
        return jax.device_put(dict(self.params), whole(device_mesh()))

    def _warn_of_cut(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        full = [
            text
            for text, ids_of_text in zip(texts, ids, strict=True)
            if len(ids_of_text) >= self.max_length
        ]
        whole_ids = self.tokenizer(full, self.max_length + 1) if full else []
        cut = sum(len(ids_of_text) > self.max_length for ids_of_text in whole_ids)
        if cut:
            log.warning(
                "encoder %s: %d of %d texts are longer than the %d tokens (max_length) that it "
                "reads, and the rest is ignored: shorten the texts, put what tells "
                "them apart first, or take an encoder that reads more",
                self.name,
                cut,
                len(texts),
                self.max_length,
            )

    def encode(self, texts: Sequence[str], batch_size: int = 64) -> Float[np.ndarray, "n d"]:
        """Return the vectors of N texts, float32 [N, D], in order.

        A progress bar is shown if it takes long.

        Texts are sorted by length and padded to one of a few shapes. Up to rounding, a text's
        vector does not depend on the other texts. Batches are split evenly over the devices of this
        process, with `batch_size` texts per device, or fewer if texts are longer than 128 tokens.

        Raises:
            UserError: `texts` is not a list of strings, or a vector is not finite.
        """
        check_texts(texts)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        # tokenizers refuse an empty list
        ids = self.tokenizer(texts, self.max_length) if len(texts) else []
        self._warn_of_cut(texts, ids)
        mesh = device_mesh()
        lengths = [len(text) for text in ids]
        step = batch_size * mesh.size
        # a single batch, such as a query, shows nothing while its shape is compiled
        delay = 1.0 if len(texts) > step else math.inf
        with bar(len(texts), f"encode ({self.name})", delay=delay) as progress:

            def receive(chosen: np.ndarray, result: jax.Array) -> None:
                vectors[chosen] = np.asarray(result)[: len(chosen)]
                progress.update(len(chosen))

            running: tuple[np.ndarray, jax.Array] | None = None
            for chosen, (rows, length) in batches(lengths, step, self.max_length):
                rows = filled_up(rows, mesh)
                tokens = pad([ids[i] for i in chosen], length, self.tokenizer.pad_id, rows)
                result = self._jitted(self._on_devices, jax.device_put(tokens, split(mesh)))
                # the previous batch is only read now, so that the device works while this thread
                # pads the next
                if running:
                    receive(*running)
                running = chosen, result
            if running:
                receive(*running)
        check_finite(vectors, texts, self.name)
        return vectors

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the encoder so that `load_encoder(folder)` loads it.

        An encoder in the folder is replaced.

        A BERT, RoBERTa or MPNet with a Hugging Face tokenizer is written as a sentence-transformers
        folder, which transformers and sentence-transformers read. Any other network is written as
        its parameters and the name of its factory.

        Raises:
            UserError: the disk is full, the folder cannot be written, or the encoder has no
                factory.
        """
        if self.checkpoint is None and self.factory is None:
            raise UserError(
                f"encoder {self.name!r} cannot be saved: nothing says how to build its network "
                "again; load it by a name given to register_encoder, or as 'module:function'"
            )
        folder = Path(folder)
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in (FACTORY_FILE, *HF_FILES):
                (folder / name).unlink(missing_ok=True)
            if self.checkpoint is not None:
                self.checkpoint.write(self.params, self.tokenizer, self.max_length, folder)
                return
            arrays = {name: np.ascontiguousarray(value) for name, value in self.params.items()}
            save_file(arrays, folder / "model.safetensors")
            write_json(folder / FACTORY_FILE, {"factory": self.factory})


def check_same_shapes(expected: Mapping[str, Any], arrays: Mapping[str, Any], where: str) -> None:
    """Check that two sets of arrays have the same names and shapes.

    Args:
        expected: the arrays of the network, by name.
        arrays: the arrays that were read.
        where: the beginning of the message, such as the file that was read.

    Raises:
        UserError: they differ. The message lists up to three names of each kind: missing,
            unexpected, and of another shape.
    """
    missing = [name for name in expected if name not in arrays]
    unexpected = [name for name in arrays if name not in expected]
    shapes = [
        f"{name} {tuple(arrays[name].shape)} where {tuple(expected[name].shape)} was expected"
        for name in expected
        if name in arrays and tuple(arrays[name].shape) != tuple(expected[name].shape)
    ]
    differences = [
        f"{kind} {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
        for kind, names in (("missing", missing), ("unexpected", unexpected), ("shape of", shapes))
        if names
    ]
    if differences:
        raise UserError(f"{where}: a checkpoint of another architecture: {'; '.join(differences)}")


def require_network(encoder: TextEncoder) -> Encoder:
    """Return the encoder if it can be trained and saved.

    Raises:
        UserError: it is behind an endpoint or only returns vectors.
    """
    if not isinstance(encoder, Encoder):
        raise UserError(
            f"encoder {encoder.name} is behind an endpoint or gives vectors only: it can retrieve, "
            "but it cannot be trained or saved; EPR and CEIL need a local one, such as "
            "all-MiniLM-L6-v2"
        )
    return encoder


def _add_arrays(digest: hashlib._Hash, tree: Any) -> None:
    """Add the arrays of a tree to a digest, with their paths, shapes and dtypes."""
    for path, leaf in jax.tree.leaves_with_path(tree):
        # dropout's state holds random keys, which are not arrays of numbers
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        value = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {value.shape} {value.dtype}".encode())
        digest.update(np.ascontiguousarray(value).data)


def _apply(
    graphdef: Any, constants: Any, paths: Mapping[str, tuple]
) -> Callable[..., Float[Array, "b d"]]:
    def apply(
        params: Params, tokens: Tokens, *, key: jax.Array | None = None
    ) -> Float[Array, "b d"]:
        state = nnx.from_flat_state({path: params[name] for name, path in paths.items()})
        module = nnx.merge(graphdef, state, *constants)
        vectors = module(tokens.ids, tokens.mask, key=key)
        if jnp.shape(vectors)[:-1] != tokens.ids.shape[:1]:
            what = (
                f"{type(module).__name__} returned {vectors!r:.80} for ids of shape "
                f"{tokens.ids.shape}"
            )
            raise UserError(f"{what}; expected a vector for each text")
        return vectors.astype(jnp.float32)

    return apply
