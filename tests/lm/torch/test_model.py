"""TorchLM against one plain forward pass a text, on small random models."""

import numpy as np
import pytest
import torch
from lm_models import model, tokenizer

from ceil_jax.errors import UserError
from ceil_jax.lm.messages import Messages
from ceil_jax.lm.torch.model import TorchLM
from ceil_jax.lm.torch.padded import PaddedReader

KINDS = [("llama", False), ("llama", True), ("gpt2", False), ("gemma3", True), ("gpt_neo", False)]
PROMPTS = [
    "A film; It is",
    "It is ",  # the space goes into the continuation's first token
    "so so film",
    "",
    "a;",  # ";\n" is one token
    "fi",  # so is "film"
    "It is good; It is bad; a long and winding film; It is",
    "é",
]
CHOICES = [
    [" good", " bad", " great"],
    ["good", "great film", "bad"],
    [" is so so good", " x", ""],
    ["film", " film is good"],
    ["\n", "\nfilm", " x"],
    ["lm", "lm is"],
    [" good", " bad"],
    ["é", "è is"],
]
PAIRS = [
    (prompt, option) for prompt, options in zip(PROMPTS, CHOICES, strict=True) for option in options
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}{'-bos' * kind[1]}")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def network(kind):
    return model(kind[0])


def language_model(network, kind, **settings):
    return TorchLM(network, tokenizer(bos=kind[1]), name="random", **settings)


@pytest.fixture(scope="module")
def lm(network, kind):
    return language_model(network, kind)


def naive(network, kind, prompt, continuation):
    """Log-likelihood by one forward pass; where a token ends is counted in bytes."""
    fast = tokenizer(bos=kind[1])
    ids = fast(prompt + continuation)["input_ids"]
    # a token is spelt with one character a byte
    ends = np.cumsum([0 if token == 0 else len(fast.convert_ids_to_tokens(token)) for token in ids])
    scored = [place for place, end in enumerate(ends) if end > len(prompt.encode())]
    if 0 in scored:  # nothing stands before the first token, so </s> is put there
        ids = [1, *ids]
        scored = [place + 1 for place in scored]
    with torch.no_grad():
        log_probs = network(torch.tensor([ids or [1]])).logits[0].float().log_softmax(-1)
    return sum(float(log_probs[place - 1, ids[place]]) for place in scored)


def greedy(network, ids, limit, ends=(1,)):
    """The ids an argmax loop adds, one full pass for each."""
    begin = len(ids)
    while len(ids) < begin + limit:
        with torch.no_grad():
            token = int(network(torch.tensor([ids])).logits[0, -1].argmax())
        if token in ends:
            break
        ids = [*ids, token]
    return ids[begin:]


def test_log_likelihood_is_that_of_one_full_pass_a_pair(lm, network, kind):
    found = lm.log_likelihood([p for p, _ in PAIRS], [c for _, c in PAIRS])
    expected = [naive(network, kind, prompt, continuation) for prompt, continuation in PAIRS]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert len(set(np.round(expected, 2))) > len(PAIRS) - 4  # the model does tell them apart


def test_choices_are_the_log_likelihoods_of_each(lm):
    found = lm.choice_log_likelihood(PROMPTS, CHOICES)
    each = lm.log_likelihood([p for p, _ in PAIRS], [c for _, c in PAIRS])
    assert [len(scores) for scores in found] == [len(options) for options in CHOICES]
    np.testing.assert_allclose(np.concatenate(found), each, atol=1e-4)


@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_results_do_not_depend_on_the_batch(lm, network, kind, budget):
    other = language_model(network, kind, token_budget=budget)
    reference = np.concatenate(lm.choice_log_likelihood(PROMPTS, CHOICES))
    found = other.choice_log_likelihood(PROMPTS[::-1], CHOICES[::-1])[::-1]
    np.testing.assert_allclose(np.concatenate(found), reference, atol=1e-4)
    alone = [
        other.choice_log_likelihood([p], [c])[0] for p, c in zip(PROMPTS, CHOICES, strict=True)
    ]
    np.testing.assert_allclose(np.concatenate(alone), reference, atol=1e-4)


@pytest.mark.parametrize("cores", [1, 2])
def test_each_core_reads_rows_of_its_own(lm, network, kind, cores):
    working = set()
    before = torch.get_num_threads()
    hook = network.register_forward_pre_hook(lambda *_: working.add(torch.get_num_threads()))
    try:
        torch.set_num_threads(cores)
        found = language_model(network, kind, token_budget=16).log_likelihood(
            *zip(*PAIRS, strict=True)
        )
        assert torch.get_num_threads() == cores
    finally:
        hook.remove()
        torch.set_num_threads(before)
    # GPT-Neo's rows are padded and read together
    assert working == {cores if kind[0] == "gpt_neo" else 1}
    assert found == pytest.approx(lm.log_likelihood(*zip(*PAIRS, strict=True)), abs=1e-4)


def test_a_gpu_without_room_reads_fewer_tokens_at_a_time(lm, network, kind, caplog):
    poor = language_model(network, kind, token_budget=2048)

    def full(*_):
        if poor._reader.budget > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore")

    room = 600
    hook = network.register_forward_pre_hook(full)
    try:
        prompts = [f"A film number{i}; It is" for i in range(9)]
        found = poor.log_likelihood(prompts, [" good film"] * 9)
        assert poor._reader.budget == 512
        assert "reading 1024 tokens at a time" in caplog.text
        texts = poor.generate(prompts, 3, ())
        room = 0
        with pytest.raises(
            UserError,
            match=r"too little memory for a prompt \(CUDA out of memory. Tried to allocate 2 GiB.\)",
        ):
            poor.log_likelihood(prompts, [" bad film"] * 9)
    finally:
        hook.remove()
    assert found == pytest.approx(lm.log_likelihood(prompts, [" good film"] * 9), abs=1e-4)
    assert texts == lm.generate(prompts, 3, ())


def test_logits_count_in_a_padded_pass(lm, network, monkeypatch):
    passes = []
    hook = network.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        reader = PaddedReader(network, 1024)
        rows = lm._pairs.pairs(*zip(*PAIRS, strict=True))
        whole = reader.each(rows)
        counted = len(passes)
        monkeypatch.setattr("ceil_jax.lm.torch.padded._LOGITS", 1)
        parts = reader.each(rows)
    finally:
        hook.remove()
    assert (
        counted < len(passes) - counted == len({tuple(row.ids[:-1]) for row in rows if row.scored})
    )
    assert parts[1] == whole[1]
    for one, other in zip(parts[0], whole[0], strict=True):
        assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS[:-1], indirect=True)
def test_tokens_read_counts_what_options_share_once(network, kind):
    lm = language_model(network, kind)
    bos = int(kind[1])
    assert lm.count_tokens(["A film; It is", ""]).tolist() == [5, 0]
    lm.choice_log_likelihood(["A film; It is"], [[" good", " bad"]])
    assert lm.tokens_read == 5 + bos
    lm.choice_log_likelihood(["A film; It is"], [[" good", " bad film", " is is so"]])
    # once more the prompt, and all but the last token of the two longer options
    assert lm.tokens_read == 2 * (5 + bos) + 1 + 2
    lm.log_likelihood(["A film; It is"], [" is is so"])
    assert lm.tokens_read == 3 * (5 + bos) + 1 + 2 + 2


def test_greedy_generation_is_the_argmax_loop(lm, network, kind):
    fast = tokenizer(bos=kind[1])
    written = [greedy(network, fast(prompt)["input_ids"] or [1], 7) for prompt in PROMPTS]
    expected = [fast.decode(ids, skip_special_tokens=True) for ids in written]
    assert lm.generate(PROMPTS, 7) == expected
    assert [lm.generate([prompt], 7)[0] for prompt in PROMPTS] == expected


@pytest.mark.parametrize("budget", [5, 10_000])
def test_prompts_generated_together_change_no_text(network, kind, budget):
    fast = tokenizer(bos=kind[1])
    opening = "It is good; a film is so so bad;"
    prompts = [
        opening + rest for rest in ["", " It is", " a film is so great; It", " bad", " It is"]
    ]
    ids = [fast(prompt)["input_ids"] for prompt in prompts]
    expected = [fast.decode(greedy(network, row, 7), skip_special_tokens=True) for row in ids]
    lm = language_model(network, kind, token_budget=budget)
    assert lm.generate(prompts, 7) == expected
    sampled = lm.generate(prompts, 7, temperature=1.0, seed=1)
    assert sampled == [lm.generate([prompt], 7, temperature=1.0, seed=1)[0] for prompt in prompts]


def test_generation_reads_equal_prompts_once(network, kind):
    lm = language_model(network, kind)
    prompts = ["It is good; It is", "It is good; film", "It is good; It is"]
    ids = [tokenizer(bos=kind[1])(prompt)["input_ids"] for prompt in prompts[:2]]
    lm.generate(prompts, 1)
    assert lm.tokens_read == sum(map(len, ids))


def test_generation_stops_at_strings_cut_exactly(lm):
    [free] = lm.generate(["A film; It is"], 12)
    stop = free[5:7]
    assert lm.generate(["A film; It is"], 12, [stop, "never this"]) == [free[: free.index(stop)]]
    assert lm.generate(["A film; It is"], 0) == [""]


def test_generation_ends_at_the_end_of_text_token(network, kind, monkeypatch):
    fast = tokenizer(bos=kind[1])
    prompt = fast("It is")["input_ids"]
    written = greedy(network, prompt, 6)
    ends = [1, written[-1]]
    monkeypatch.setattr(network.generation_config, "eos_token_id", ends)
    expected = greedy(network, prompt, 6, ends)
    assert len(expected) < len(written)
    [found] = language_model(network, kind).generate(["It is"], 6)
    assert found == fast.decode(expected, skip_special_tokens=True)


def test_sampling_repeats_with_its_seed_and_does_not_see_the_batch(lm):
    once = lm.generate(PROMPTS, 9, temperature=1.0, seed=3)
    assert once == lm.generate(PROMPTS, 9, temperature=1.0, seed=3)
    assert once == [lm.generate([prompt], 9, temperature=1.0, seed=3)[0] for prompt in PROMPTS]
    assert once != lm.generate(PROMPTS, 9, temperature=1.0, seed=4)
    assert lm.generate(PROMPTS, 5, temperature=1e-4) == lm.generate(PROMPTS, 5)


def test_samples_come_as_often_as_they_are_likely(network, kind):
    lm = language_model(network, kind)
    prompts = [f"{n} It is" for n in range(300)]
    expected = np.exp(lm.log_likelihood(prompts, [" good"] * 300))
    drawn = np.array(lm.generate(prompts, 1, temperature=1.0)) == " good"
    spread = np.sqrt((expected * (1 - expected)).sum())
    assert abs(drawn.sum() - expected.sum()) < 4 * spread + 1


def test_a_prompt_too_long_names_itself(network, kind):
    lm = language_model(network, kind)
    room = 96 - int(kind[1])
    lm.log_likelihood(["x" * (room - 1)], ["x"])
    with pytest.raises(
        UserError, match=r"prompt 1 is 97 tokens .* more than the 96 that random reads"
    ):
        lm.log_likelihood(["x", "x" * room], ["x", "x"])
    with pytest.raises(UserError, match="prompt 1 is 97 tokens"):
        lm.choose(["x", "x" * (room - 1)], [["x"], ["x", "xx"]])
    with pytest.raises(UserError, match="prompt 0 is 97 tokens"):
        lm.generate(["x" * room], 1)
    before = lm.tokens_read
    lm.generate(["x" * (room - 2)], 50)
    assert lm.tokens_read - before <= 94 + 1  # two tokens fill the context; the second is not read


def test_nothing_asked_is_nothing_answered(lm):
    assert lm.log_likelihood([], []).shape == (0,)
    assert lm.choice_log_likelihood([], []) == []
    assert lm.generate([], 5) == []


def test_a_shared_opening_longer_than_a_sliding_window_changes_no_text():
    kind = ("gemma3", True)  # its first layer sees the last 8 tokens only
    network = model(kind[0])
    lm = language_model(network, kind)
    opening = "film; so; " * 5
    assert lm.count_tokens([opening])[0] > 2 * 8
    prompts = [opening + rest for rest in ("It is good", "so so")]
    written = lm.generate(prompts, 3)
    found = lm.log_likelihood(prompts, written)
    fast = lm.tokenizer
    for prompt, answer, score in zip(prompts, written, found, strict=True):
        ids = fast(prompt + answer)["input_ids"]
        start = len(fast(prompt)["input_ids"])
        with torch.no_grad():
            logits = network(torch.tensor([ids])).logits[0, start - 1 : -1]
        asked = torch.tensor(ids[start:])
        assert logits.argmax(-1).tolist() == asked.tolist()
        expected = float(logits.log_softmax(-1)[torch.arange(len(asked)), asked].sum())
        assert score == pytest.approx(expected, abs=1e-3)


CHAT = (
    "{{ bos_token or '' }}{% for m in messages %}{{ m['role'] }}; {{ m['content'] }};\n{% endfor %}"
    "{% if add_generation_prompt %}assistant; {% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"


def with_template(network, template, *, bos=False):
    fast = tokenizer(bos=bos)
    fast.chat_template = template
    return TorchLM(network, fast, name="random")


def chat_of(*texts):
    roles = ["system", *["user", "assistant"] * len(texts)]
    return Messages(
        {"role": role, "content": text} for role, text in zip(roles, texts, strict=False)
    )


@pytest.mark.parametrize("bos", [False, True])
def test_turns_are_a_text_by_the_chat_template_behind_which_answers_are_scored(bos):
    network = model("llama")
    lm = with_template(network, CHAT, bos=bos)
    assert lm.takes_system
    prompt = lm.chat(chat_of("is", "a film", "good", "film"))
    # the start of text is not there twice
    assert prompt == "system; is;\nuser; a film;\nassistant; good;\nuser; film;\nassistant; "
    [found] = lm.log_likelihood([prompt], ["good"])
    assert found == pytest.approx(naive(network, ("llama", bos), prompt, "good"), abs=1e-4)


def test_what_turns_share_is_read_once():
    lm = with_template(model("llama", context=256), CHAT)
    prompts = [lm.chat(chat_of("is", "a film", "good", text)) for text in ("film", "so")]
    lm.log_likelihood(prompts[:1], ["x"])
    alone = lm.tokens_read
    lm.log_likelihood(prompts, ["x", "x"])
    # the second prompt's own tokens are the last query and the marks behind it
    own = lm.count_tokens([prompts[1].rpartition("user;")[2]])[0]
    assert lm.tokens_read - 2 * alone <= own + 2


def test_a_chat_template_that_takes_no_system_message():
    lm = with_template(model("llama"), NO_SYSTEM + CHAT)
    assert not lm.takes_system
    with pytest.raises(UserError, match=r"the chat template of .* refuses a prompt: no system"):
        lm.chat(chat_of("is", "film"))
    assert not with_template(model("llama"), "{{ messages[-1]['content'] }}").takes_system
    with pytest.raises(UserError, match="has no chat template, which --form turns needs"):
        language_model(model("llama"), ("llama", False)).chat(chat_of("is", "film"))
