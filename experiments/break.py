"""break: questions to low-level QDMR decompositions."""

from runner import run

run("break")
