"""Choosing in-context examples: CEIL, EPR, Skill-KNN and their baselines, in JAX.

These are the public names. Each is imported when it is first used, so that `import ceil_jax` is
fast; type checkers read `__init__.pyi` instead. Each folder holds one idea, which the docstring of
its `__init__.py` describes.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "ceil_jax.dpp.distribution": ("log_normalizer", "sample_dpp", "sample_k_dpp", "subset_log_det"),
    "ceil_jax.dpp.greedy": ("MapResult", "greedy_map", "greedy_map_from_features"),
    "ceil_jax.dpp.kernel": ("conditional_kernel", "similarity_from_features"),
    "ceil_jax.encoders.encoder": ("Encoder",),
    "ceil_jax.encoders.example_encoder": ("ExampleEncoder",),
    "ceil_jax.encoders.registry": ("load_encoder", "register_encoder"),
    "ceil_jax.errors": ("Range", "UserError"),
    "ceil_jax.lm": ("LanguageModel", "load_lm"),
    "ceil_jax.lm.prompts": ("register_order",),
    "ceil_jax.lm.registry": ("register_lm",),
    "ceil_jax.methods.base": ("LearnsFromOutputs", "LearnsFromScores", "Method", "TrainingJob"),
    "ceil_jax.methods.build": ("build_retriever",),
    "ceil_jax.methods.ceil": ("CEIL",),
    "ceil_jax.methods.epr": ("EPR",),
    "ceil_jax.methods.free": ("Free", "Labels"),
    "ceil_jax.methods.registry": ("register_retriever", "register_row"),
    "ceil_jax.methods.row": ("Row",),
    "ceil_jax.methods.tst": ("TST",),
    "ceil_jax.methods.untrained": ("Untrained",),
    "ceil_jax.metrics": ("Metric", "register_metric"),
    "ceil_jax.pipeline.config": ("RunConfig",),
    "ceil_jax.pipeline.evaluate": ("evaluate",),
    "ceil_jax.pipeline.setup": ("open_run",),
    "ceil_jax.report.compare": ("compare",),
    "ceil_jax.retrieval.retriever": (
        "Choice",
        "Needs",
        "Queries",
        "Retrieved",
        "Retriever",
        "RetrieverArguments",
        "choice_of",
    ),
    "ceil_jax.retrieval.retrievers": ("MAP", "NEAREST", "Ranking"),
    "ceil_jax.selector": ("CeilSelector", "Selection"),
    "ceil_jax.selector.classifier": ("LabelClassifier",),
    "ceil_jax.selector.adapters.dspy": ("CeilFewShot",),
    "ceil_jax.selector.adapters.langchain": ("CeilExampleSelector",),
    "ceil_jax.selector.adapters.lm_eval": ("CeilSampler", "choose_few_shot"),
    "ceil_jax.tasks": ("TASKS", "Example", "Task", "Template", "register_task"),
    "ceil_jax.tasks.load": ("load_task",),
    "ceil_jax.training.free.encoder": ("register_head",),
    "ceil_jax.training.losses": (
        "SetScores",
        "info_nce_loss",
        "pairwise_margin_loss",
        "register_loss",
    ),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ceil_jax' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
