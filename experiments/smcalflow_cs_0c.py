"""smcalflow_cs.0c: SMCalFlow-CS, cross-domain test, no cross-domain example in the prompt."""

from runner import run

run("smcalflow_cs.0c")
