"""Language models and encoders behind an OpenAI-compatible server; the only room that imports the
`openai` package.

Retries and Retry-After are that package's. Added here: a budget, a deadline for whole answers,
proxies, care of the key, a probe of what the server can do, and the answer of a chat without its
wrappers.

- `model`: `EndpointLM`, an LM on a server
- `config`: `EndpointConfig`, the settings of requests, and the key
- `address`: `http://host:8000/v1#model-name`, and what people paste in its place
- `client`: requests to one server, many at a time
- `http`: one attempt at a request: the budget, the deadline, the proxy, the key
- `events`: an answer that comes as a stream although none was asked for
- `listing`: the models that a server lists, and what it says of one
- `probe`: what a server can do, and a check of its log-probabilities
- `tokens`: how many tokens a text has, counted or estimated
- `alignment`: the tokens of an answer that belong to a continuation
- `chat`: the answer in a chat message, without reasoning, code fences and role prefixes
"""
