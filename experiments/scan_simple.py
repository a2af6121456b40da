"""scan.simple: SCAN commands to actions, simple split, enumerated from the grammar."""

from runner import run

run("scan.simple")
