# %% [markdown]
# # Swap the encoder
#
# Anything that turns padded token ids into a vector can be the encoder: it takes a Flax module, a tokenizer and a
# name. The rest, EPR and CEIL training included, stays as it is. This notebook trains a bag of words with learned
# weights for a few steps on the scores of the deterministic test LM, so that it runs anywhere in about a minute. The
# scores mean nothing.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import matplotlib.pyplot as plt
import numpy as np
from flax import nnx

from ceil_jax import Encoder, build_retriever, load_encoder, load_task, register_encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.report.compare import compare
from ceil_jax.report.plots import BLUE, ORANGE
from ceil_jax.training.loop import QUALITY

plt.rcParams.update({"figure.facecolor": "white", "figure.constrained_layout.use": True})

# %% [markdown]
# ## The encoder
#
# `module(ids, mask, *, key=None)` gets two int32 arrays [B, T] and returns [B, D]; `key` turns dropout on, which this
# module does without. Every `nnx.Param` is trained.


# %%
class WeightedWords(nnx.Module):
    """A weighted mean of word vectors; each word has a learned weight."""

    def __init__(self, words, dim, rngs):
        self.vectors = nnx.Embed(words, dim, rngs=rngs)
        self.weights = nnx.Embed(words, 1, embedding_init=nnx.initializers.zeros, rngs=rngs)

    def __call__(self, ids, mask, *, key=None):
        weights = jax.nn.softmax(self.weights(ids), axis=1, where=mask[..., None] > 0)
        return (weights * self.vectors(ids)).sum(axis=1)


def weighted_words():
    module = WeightedWords(4096, 64, nnx.Rngs(0))
    return Encoder(module, HashingTokenizer(4096), max_length=64, factory="weighted-words")


register_encoder("weighted-words", weighted_words, replace=True)
encoder = load_encoder("weighted-words")
print(encoder.encode(["a dull film", "a dull, grey film"]).shape)

# %% [markdown]
# That is all. Every retriever takes it:

# %%
task = load_task("movie_reviews", bank_limit=200, limit=24)
retriever = build_retriever("dpp", task.train, encoder=encoder, trade_off=0.05, shortlist=30)
for pick in retriever.retrieve(task.validation[:1], k=4)[0]:
    print(f"{pick.gain:7.2f}  {task.train[pick.position].input}")

# %% [markdown]
# ## Training it
#
# A run scores single examples with the LM and trains EPR on them, scores sets and trains CEIL on those, and answers
# the queries. On the command line, with the class in a file `my_encoders.py`, it is
# `ceil-jax compare --encoder my_encoders:weighted_words`. The machine had other work when this notebook was
# executed, so the seconds in its table say little.

# %%
folder = TemporaryDirectory()
config = RunConfig(
    task=task.name,
    encoder="weighted-words",
    lm="tiny",
    shots=4,
    shortlist=30,
    methods=(
        EPR(
            instances=120, candidates=12, positives=3, epochs=3, learning_rate=1e-2, temperature=0.1
        ),
        CEIL(instances=120, subsets=8, size=4, shortlist=30, epochs=3, learning_rate=3e-3),
    ),
    out=Path(folder.name),
)
run, setup = open_run(config, task)
comparison = compare(run, setup, ["topk", "dpp", "epr", "ceil"])
print(comparison.text())

# %% [markdown]
# The figure shows how well each encoder ranks the candidates of held-out training queries, from before the first
# step. The two lines do not compare EPR with CEIL: EPR ranks single examples, and CEIL sets of four. CEIL's τ does
# not rise. It starts from EPR's encoder, and the scores of the test LM mean nothing, so more steps need not help.
# Therefore training ends with the starting weights if these rank better than the average of the last ones. Only 30
# queries are held out: too few for a claim about either method.

# %%
figure, axes = plt.subplots(figsize=(6, 3.2))
for method, marker, colour in ((EPR, "o", BLUE), (CEIL, "s", ORANGE)):
    history = run.notes(StepsOf(setup).learnt(config.method(method)).networks)["history"]
    axes.plot(
        [row["step"] for row in history],
        [row[QUALITY] for row in history],
        marker=marker,
        color=colour,
        label=method.title,
    )
axes.set(xlabel="training step", ylabel="Kendall's τ with the LM's ranking")
axes.grid(alpha=0.3)
axes.legend()

# %% [markdown]
# ## Saving it
#
# `save_pretrained` writes the parameters and the factory's name; `load_encoder(folder)` brings the encoder back
# wherever that name is registered.

# %%
trained = run.get(StepsOf(setup).learnt(config.method(EPR)).networks).query
trained.save_pretrained(Path(folder.name) / "my-encoder")
again = load_encoder(Path(folder.name) / "my-encoder")
moved = np.abs(
    np.asarray(trained.params["vectors.embedding"]) - encoder.params["vectors.embedding"]
).max()
print("largest change of a parameter in training:", moved)
