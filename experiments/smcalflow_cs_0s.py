"""smcalflow_cs.0s: SMCalFlow-CS, single-domain test, no cross-domain example in the prompt."""

from runner import run

run("smcalflow_cs.0s")
