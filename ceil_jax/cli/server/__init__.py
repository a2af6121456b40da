"""The server of `ceil-jax serve-lm`; the command itself is `cli/serve_lm.py`.

- `app`: the ASGI application: who may ask, how much, and in what order
- `service`: the answers
- `fields`: checked reading of a request's fields
"""
