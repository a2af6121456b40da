"""geoquery.tmcd: GeoQuery, TMCD split: compounds diverge between bank and test."""

from runner import run

run("geoquery.tmcd")
