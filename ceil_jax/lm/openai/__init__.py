"""Language models and encoders behind an OpenAI-compatible server; the only room that imports the
`openai` package.

Retries, Retry-After, proxies and time-outs are that package's. Added here: a budget, a deadline for
whole answers, care of the key, a probe before the first score, and the answer of a chat without its
wrappers.

- `model`: `EndpointLM`, an LM on a server
- `config`: `EndpointConfig`, the settings of requests, and the key
- `address`: `http://host:8000/v1#model-name`
- `client`: requests to one server within a budget, each attempt at one, and the models that it
  lists
- `chat`: the answer in a chat message, without reasoning, code fences and role prefixes
- `alignment`: the tokens of an answer that belong to a continuation
- `probe`: a check of a server's log-probabilities
"""
