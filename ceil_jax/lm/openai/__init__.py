"""Language models and encoders behind an OpenAI-compatible server.

The only subpackage that imports the `openai` package.

What is sent and read is what that package's client sends and reads, with its own retries and
time-outs. Added here: a deadline for whole answers, a budget, protection of the key, a probe of
what the server can do, and the alignment of log-probabilities.

- `model`: `EndpointLM`, an LM on a server
- `config`: `EndpointConfig`, the settings of requests; the key and the headers
- `address`: parsing `http://host:8000/v1#model-name`
- `client`: requests to one server, many at a time, and the one message about a refusal
- `served`: the model that a server lists: its context length, and the name of its results
- `probe`: what a server can do, and a check of its log-probabilities
- `tokens`: the number of tokens of a text, counted by a tokenizer or estimated
- `alignment`: the tokens of an answer that belong to a continuation
- `labels`: log P of labels, from the first tokens of an answer in a chat
- `chat`: the answer in a message, and the schema that holds it to labels
"""
