"""mrpc: is one sentence a paraphrase of the other?"""

from runner import run

run("mrpc")
