"""geoquery.template: GeoQuery, template split: the query templates of the test are not in the bank."""

from runner import run

run("geoquery.template")
