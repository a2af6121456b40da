"""Real servers: started with the packaged weights, asked as a user asks them, compared with the
same models in process. `make servers-check` runs all; it is no part of the tests.

- `__main__`: the command
- `environment`: a virtual environment for each server, made once
- `serving`: a server's process, from its start until it is ended
- `language_models`: LM servers, and log P, answers, `compare` and `tune` through them
- `vectors`: an embeddings server
- `programs`: what runs inside the environments
"""
