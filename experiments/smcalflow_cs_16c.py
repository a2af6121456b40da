"""smcalflow_cs.16c: SMCalFlow-CS, cross-domain test, every prompt starts with 16 cross-domain
examples."""

from runner import run

run("smcalflow_cs.16c")
