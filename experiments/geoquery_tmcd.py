"""geoquery.tmcd: GeoQuery, TMCD split: compounds are distributed differently in bank and test."""

from runner import run

run("geoquery.tmcd")
