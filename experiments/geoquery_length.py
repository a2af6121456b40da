"""geoquery.length: GeoQuery, length split: the test is longer than the bank."""

from runner import run

run("geoquery.length")
