"""smcalflow: dialogue turns to Lispress programs."""

from runner import run

run("smcalflow")
