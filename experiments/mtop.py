"""mtop: utterances to nested intents and slots."""

from runner import run

run("mtop")
