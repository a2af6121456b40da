"""Language models and encoders behind an OpenAI-compatible server; the only room that imports the
`openai` package.

That package handles retries and Retry-After. Added here: a budget, a deadline for whole answers,
proxies, protection of the key, a probe of what the server can do, and extracting the answer from a
chat message.

- `model`: `EndpointLM`, an LM on a server
- `config`: `EndpointConfig`, the settings of requests, and the key
- `address`: parsing `http://host:8000/v1#model-name`, and other forms that people paste
- `client`: requests to one server, many at a time
- `http`: one attempt at a request: the budget, the deadline, the proxy, the key
- `error_bodies`: the message in the body of an error
- `events`: answers that arrive as a stream although none was requested
- `listing`: the models that a server lists, and their description
- `probe`: what a server can do, and a check of its log-probabilities
- `tokens`: the number of tokens of a text, counted or estimated
- `alignment`: the tokens of an answer that belong to a continuation
- `chat`: extracting the answer from a chat message: no reasoning, code fences or role prefixes
"""
