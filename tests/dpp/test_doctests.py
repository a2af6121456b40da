"""The examples in the docstrings of dpp/."""

import doctest
import importlib
import pkgutil

import pytest

import ceil_jax.dpp

WITHOUT_EXAMPLES = {"lifting"}
MODULES = {module.name for module in pkgutil.iter_modules(ceil_jax.dpp.__path__)} - WITHOUT_EXAMPLES

WITH_EXAMPLES = {
    "kernel": {"similarity_from_features", "relevance", "conditional_kernel"},
    "distribution": {"subset_log_det", "log_normalizer", "sample_dpp", "sample_k_dpp"},
    "greedy": {"greedy_map", "greedy_map_from_features"},
    "greedy_numpy": {"greedy_steps"},
    "mmr": {"maximal_marginal_relevance"},
}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_examples(name):
    module = importlib.import_module(f"ceil_jax.dpp.{name}")
    for function in WITH_EXAMPLES[name]:
        # not doctest's own search, which misses jitted functions
        docstring = getattr(module, function).__doc__
        test = doctest.DocTestParser().get_doctest(docstring, dict(vars(module)), function, None, 0)
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0
