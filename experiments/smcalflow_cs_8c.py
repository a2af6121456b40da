"""smcalflow_cs.8c: SMCalFlow-CS, cross-domain test, every prompt starts with 8 cross-domain
examples."""

from runner import run

run("smcalflow_cs.8c")
