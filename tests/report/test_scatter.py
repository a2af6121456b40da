"""The chart of scores against tokens: what stands where, and what is said to who does not see it."""

import re
import xml.etree.ElementTree as ElementTree

from ceil_jax.report.scatter import Point, scatter

POINTS = [
    Point("", 50.0, 60.0, 55.0, 65.0),
    Point("zero <examples>", 10.0, 50.0, 40.0, 60.0),
    Point("top-k, K = 8", 100.0, 80.0, 70.0, 90.0, best=True),
]


def circles(svg):
    root = ElementTree.fromstring(svg)
    return [(float(one.get("cx")), float(one.get("cy"))) for one in root.iter("circle")]


def test_more_tokens_are_further_right_and_higher_scores_higher():
    svg = scatter(POINTS, "tokens", "accuracy, %", "title & more")
    raced, zero, best = circles(svg)
    assert zero[0] < raced[0] < best[0]
    assert best[1] < raced[1] < zero[1]
    assert '<g class="best">' in svg


def test_it_is_said_in_words():
    root = ElementTree.fromstring(scatter(POINTS, "tokens", "accuracy, %", "title & more"))
    assert root.get("role") == "img"
    assert root.find("title").text == "title & more"
    assert root.find("desc").text == (
        "zero <examples> 50.0 (40.0 to 60.0) with 10 tokens; "
        "top-k, K = 8 80.0 (70.0 to 90.0) with 100 tokens"
    )


def test_labels_do_not_cover_one_another():
    alike = [Point(f"p{i}", 10.0 * i, 50.0, 50.0, 50.0) for i in range(6)]
    svg = scatter(alike, "tokens", "score", "alike")
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="\w+">p\d', svg)]
    assert len(heights) == 6
    assert min(b - a for a, b in zip(sorted(heights), sorted(heights)[1:], strict=False)) >= 13
