"""mnli: does a premise entail, contradict or leave open a hypothesis?"""

from runner import run

run("mnli")
