"""Text -> vectors: a network, its parameters and its tokenizer."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from ceil_jax.distributed.devices import device_mesh, filled_up, split, whole
from ceil_jax.encoders.tokenizers import Tokenizer, Tokens, batches, pad, padded_length
from ceil_jax.errors import UserError, unknown_name

if TYPE_CHECKING:
    from ceil_jax.encoders.hf_folder import Checkpoint

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}

Params = Mapping[str, jax.Array]
"""float32, by dotted path: `layers.0.attention.query.kernel`."""


class Encoder:
    """A text encoder. Nothing in it changes: `with_params` and `with_dtype` give another one.

    Args:
        module: a Flax module called as `module(ids, mask, *, key=None)`, int32 [B, T] twice, that returns
            [B, D]; `key` asks for dropout. Its `nnx.Param`s are the parameters; any other state is constant.
            Its leaves may be shapes only (`nnx.eval_shape`) until `with_params` gives values.
        tokenizer: texts to lists of ids.
        max_length: longer texts are cut to so many tokens, special tokens included.
        name: what reports call it.
        factory: the registered name or `module:function` that makes such an encoder; `save_pretrained` needs
            it to bring back a network that is not of a Hugging Face family.
        checkpoint: what a Hugging Face folder holds beside the parameters.
    """

    apply: Callable[..., Float[Array, "b d"]]
    """`apply(params, tokens, *, key=None)`: the vectors [B, D], float32. A pure function, to jit and
    differentiate; dropout is on when a key is given. It casts the parameters to the encoder's dtype."""

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
        self.name, self.tokenizer, self.max_length = name or type(module).__name__, tokenizer, max_length
        self.factory, self.checkpoint = factory, checkpoint
        self._graphdef, state, *self._constants = nnx.split(module, nnx.Param, ...)
        leaves = dict(nnx.to_flat_state(state))
        self._paths = {".".join(map(str, path)): path for path in leaves}
        self.params: Params = {name: leaves[path].get_value() for name, path in self._paths.items()}
        self._set_dtype("float32")
        self._probe = pad([[0]], padded_length(1, max_length), tokenizer.pad_id)
        self.dim: int = jax.eval_shape(self.apply, self.params, self._probe).shape[-1]

    def _set_dtype(self, dtype: str) -> None:
        if dtype not in DTYPES:
            raise unknown_name("dtype", dtype, DTYPES)
        self.dtype = dtype
        # kept apart from self: copies share the compiled function, and it keeps no parameters alive
        self.apply = _apply(self._graphdef, self._constants, self._paths, DTYPES[dtype])
        self._jitted = jax.jit(self.apply)

    def with_params(self, params: Params) -> Encoder:
        """This encoder with other parameters; compiled functions are shared.

        Raises:
            UserError: the names or shapes are not this encoder's; both sides are named.
        """
        fits(self.params, params, f"parameters for {self.name}")
        return self._changed(params=params)

    def with_dtype(self, dtype: str) -> Encoder:
        """This encoder computing in "float32" or "bfloat16"; parameters and vectors stay float32.

        What a float32 matrix product is on a GPU or TPU is `jax_default_matmul_precision`'s to say.
        """
        if dtype == self.dtype:
            return self
        other = self._changed()
        other._set_dtype(dtype)
        return other

    def renamed(self, name: str, factory: str | None = None) -> Encoder:
        """This encoder under another name; `factory` says what builds its network."""
        return self._changed(name=name, factory=factory or self.factory)

    def _changed(self, **attributes: Any) -> Encoder:
        other = copy.copy(self)
        for cached in ("fingerprint", "cached_as", "_cast_params"):
            other.__dict__.pop(cached, None)
        other.__dict__.update(attributes)
        return other

    @property
    def module(self) -> Any:
        """The Flax module with these parameters, for a look inside."""
        state = nnx.from_flat_state({path: self.params[name] for name, path in self._paths.items()})
        return nnx.merge(self._graphdef, state, *self._constants)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of a sha256 over weights, other state, the network's name, tokenizer and dtype. The same with
        every version of jax: a saved bank is checked by it."""
        what = (self.checkpoint and self.checkpoint.network) or self.factory or self.name
        digest = hashlib.sha256(
            f"{what} {self.tokenizer.fingerprint} {self.max_length} {self.dtype}".encode()
        )
        for name in sorted(self.params):
            value = np.ascontiguousarray(self.params[name])
            digest.update(f"{name} {value.shape} {value.dtype}".encode())
            digest.update(value.data)
        if self.checkpoint is None:
            _add_arrays(digest, self._constants)
        return digest.hexdigest()[:16]

    @cached_property
    def cached_as(self) -> str:
        """`fingerprint`, and for a network of the user's own its program too: the key of cached vectors, so that an
        edited `__call__` does not find those of the old one."""
        if self.checkpoint is not None:
            return self.fingerprint
        program = jax.make_jaxpr(self.apply)(self.params, self._probe)
        # functions in it are shown with where they lie in memory
        text = re.sub(r"0x[0-9a-f]+", "", str(program))
        digest = hashlib.sha256(f"{self.fingerprint} {text}".encode())
        _add_arrays(digest, program.consts)
        return digest.hexdigest()[:16]

    @cached_property
    def _cast_params(self) -> Params:
        """In the compute dtype and on every device, so that `encode` does not cast or copy for every batch."""
        cast = {name: jnp.asarray(value, DTYPES[self.dtype]) for name, value in self.params.items()}
        return jax.device_put(cast, whole(device_mesh()))

    def require_network(self) -> None:
        """Nothing here; an encoder whose network is elsewhere says that it cannot be trained or saved."""

    def tokenize(self, texts: Sequence[str], length: int | None = None) -> Tokens:
        """The texts cut and padded to `length` tokens, or to `max_length` if that is less; with no `length`,
        padded to the batch length that their longest needs."""
        most = self.max_length if length is None else min(length, self.max_length)
        ids = self._ids(texts, most)
        if length is None:
            most = padded_length(max(map(len, ids), default=1), most)
        return pad(ids, most, self.tokenizer.pad_id)

    def _ids(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        if isinstance(texts, str):
            raise UserError(f"texts is one string, {texts[:40]!r}; expected a list of strings")
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise UserError(f"texts[{i}] is {text!r}; expected a string")
        return self.tokenizer(texts, max_length)

    def encode(
        self, texts: Sequence[str], batch_size: int = 64, progress: bool = False
    ) -> Float[np.ndarray, "n d"]:
        """The vector of each text, float32, in the order given.

        Texts are sorted by length and padded to one of a few shapes; a text's vector does not depend on the
        others, to float error. `batch_size` is for texts of up to 128 tokens; longer ones go fewer at a time.
        Every device of this process takes as many.
        """
        from tqdm.auto import tqdm

        vectors = np.zeros((len(texts), self.dim), np.float32)
        ids = self._ids(texts, self.max_length)
        mesh = device_mesh()
        lengths, step = [len(text) for text in ids], batch_size * mesh.size
        what = f"encode ({self.name})"
        with tqdm(total=len(texts), desc=what, unit="text", delay=1, disable=not progress) as bar:

            def receive(chosen: np.ndarray, result: jax.Array) -> None:
                vectors[chosen] = np.asarray(result)[: len(chosen)]
                bar.update(len(chosen))

            running: tuple[np.ndarray, jax.Array] | None = None
            for chosen, (rows, length) in batches(lengths, step, self.max_length):
                rows = filled_up(rows, mesh)
                tokens = pad([ids[i] for i in chosen], length, self.tokenizer.pad_id, rows)
                result = self._jitted(self._cast_params, jax.device_put(tokens, split(mesh)))
                # read the batch before only now: the device works while this thread pads the next
                if running:
                    receive(*running)
                running = chosen, result
            if running:
                receive(*running)
        return vectors

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder for `load_encoder`, and for transformers and sentence-transformers if the network is
        of a Hugging Face family; see `ceil_jax.encoders.registry.save_encoder`."""
        from ceil_jax.encoders.registry import save_encoder

        save_encoder(self, Path(folder))


def _add_arrays(digest: hashlib._Hash, tree: Any) -> None:
    for path, leaf in jax.tree.leaves_with_path(tree):
        # random keys, which dropout's state holds, are no numbers
        value = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {value.shape} {value.dtype}".encode())
        digest.update(np.ascontiguousarray(value).data)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def fits(expected: Mapping[str, Any], found: Mapping[str, Any], where: str) -> None:
    """Check that two sets of arrays, or of anything with a shape, have the same names and shapes.

    Raises:
        UserError: with up to three names for each kind of difference.
    """
    missing = [name for name in expected if name not in found]
    unexpected = [name for name in found if name not in expected]
    shapes = [
        f"{name} {tuple(found[name].shape)} where {tuple(expected[name].shape)} was expected"
        for name in expected
        if name in found and tuple(found[name].shape) != tuple(expected[name].shape)
    ]
    differences = [
        f"{kind} {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
        for kind, names in (("missing", missing), ("unexpected", unexpected), ("shape of", shapes))
        if names
    ]
    if differences:
        raise UserError(f"{where}: a checkpoint of another architecture: {'; '.join(differences)}")


def _apply(
    graphdef: Any, constants: Any, paths: Mapping[str, tuple], dtype: Any
) -> Callable[..., Float[Array, "b d"]]:
    def apply(params: Params, tokens: Tokens, *, key: jax.Array | None = None) -> Float[Array, "b d"]:
        state = nnx.from_flat_state({path: params[name].astype(dtype) for name, path in paths.items()})
        module = nnx.merge(graphdef, state, *constants)
        return module(tokens.ids, tokens.mask, key=key).astype(jnp.float32)

    return apply
