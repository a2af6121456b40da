"""scan.addprim_jump: SCAN, add-primitive split: the bank has "jump" alone, the test composes it."""

from runner import run

run("scan.addprim_jump")
