"""smcalflow_cs.32c: SMCalFlow-CS, cross-domain test, every prompt starts with 32 cross-domain
examples."""

from runner import run

run("smcalflow_cs.32c")
