"""The chart of scores against tokens: what stands where, and what is said to who does not see it."""

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


def boxes(svg):
    """Label -> the rectangle of its text, at about 6.5 pixels a letter."""
    found = {}
    for group in ElementTree.fromstring(svg).iter("g"):
        text = group.find("text")
        x, y, width = float(text.get("x")), float(text.get("y")), 6.5 * len(text.text)
        left = x if text.get("anchor", text.get("text-anchor")) == "start" else x - width
        found[text.text] = (left, y - 9, left + width, y + 3)
    return found


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_labels_cover_no_other_label_and_no_point():
    near = [Point(f"dense top-k, K = {i}", 100 + 4.0 * i, 50.0, 40.0, 60.0) for i in range(4)]
    near.append(Point("zero examples", 0.0, 49.0, 40.0, 60.0))
    svg = scatter(near, "tokens", "score", "alike")
    labels = list(boxes(svg).values())
    assert len(labels) == 5
    assert not any(overlap(a, b) for i, a in enumerate(labels) for b in labels[:i])
    dots = [(x - 4, y - 4, x + 4, y + 4) for x, y in circles(svg)]
    assert not any(overlap(label, dot) for label in labels for dot in dots)
    assert all(box[0] >= 40 and box[2] <= 400 for box in labels)


def test_a_point_far_below_the_others_leaves_no_empty_band():
    far = Point("zero examples", 10.0, 0.0, 0.0, 5.0)
    best, other = (Point(f"K = {i}", 100.0 * i, 80.0, 70.0, 90.0) for i in (1, 2))
    svg = scatter([far, best, other], "tokens", "score", "t")
    [(_, y), _] = circles(svg)
    # 80 is in the middle of 67 to 93
    assert 100 < y < 170
    assert "zero examples: 0.0" in boxes(svg)
    assert "zero examples 0.0 (0.0 to 5.0)" in ElementTree.fromstring(svg).find("desc").text
