"""scan.addprim_turn_left: SCAN, add-primitive split: the bank has "turn left" alone, the test composes it."""

from runner import run

run("scan.addprim_turn_left")
