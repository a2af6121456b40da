"""scan.length: SCAN, length split: test action sequences are longer than those of the bank."""

from runner import run

run("scan.length")
