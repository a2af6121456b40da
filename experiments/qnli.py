"""qnli: does a sentence answer a question?"""

from runner import run

run("qnli")
