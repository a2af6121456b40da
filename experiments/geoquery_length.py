"""geoquery.length: GeoQuery, length split: test programs are longer than those of the bank."""

from runner import run

run("geoquery.length")
