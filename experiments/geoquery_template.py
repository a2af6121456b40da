"""geoquery.template: GeoQuery, template split: query templates of the test are new."""

from runner import run

run("geoquery.template")
