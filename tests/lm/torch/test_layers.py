"""Which layers' hidden states are read."""

from types import SimpleNamespace

from ceil_jax.lm.torch.layers import two_layers


def test_they_are_the_middle_one_and_the_last():
    """A model of four layers has five hidden states: the first are the embeddings."""

    def base_model(**asked):
        assert asked["input_ids"] == "ids"
        assert asked["output_hidden_states"]
        return SimpleNamespace(hidden_states=("embeddings", "1", "2", "3", "4"))

    model = SimpleNamespace(base_model=base_model)
    assert two_layers(model, {"input_ids": "ids"}) == ("2", "4")
