"""geoquery: questions about US geography to FunQL, standard split."""

from runner import run

run("geoquery")
