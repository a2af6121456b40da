"""Language models (and vectors) behind a server with an OpenAI-compatible interface; the only room that imports
the `openai` package.

Retries, Retry-After, proxies and time-outs are that package's. Ours are the budget, a deadline for whole answers,
what becomes of a key, and the probe of a server before its first score.

- `model`: `EndpointLM`, the `LanguageModel` protocol over a server
- `config`: `EndpointConfig`, how a server is asked, and its key
- `address`: `http://host:8000/v1#model-name`
- `client`: requests to one server
- `attempt`: one attempt at a request, and the requests and tokens that a run may spend on a server
- `cleaning`: what a server sends, without the key and cut in length
- `schema`: the fields of answers, with their types and ranges, and what they say
- `alignment`: which tokens of an answer belong to a continuation
- `probe`: whether a server's log-probabilities are what they should be
"""
