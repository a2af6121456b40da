"""The page in a real browser: on a telephone and on a desktop, in light and in dark."""

import shutil

import pytest

from ceil_jax.cli.main import main

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]

SIZES = """() => ({
    sideways: document.documentElement.scrollWidth - innerWidth,
    method: document.querySelector("section td").getBoundingClientRect().height,
    picture: document.querySelector("figure img").getBoundingClientRect().width,
    unhinted: [...document.querySelectorAll("table")].filter((table) => !table.closest(".wide")).length,
    shown: document.querySelector("figure img").currentSrc,
    background: getComputedStyle(document.body).color,
})"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    rows = [
        f"a {('dull', 'bright')[i % 2]} film number {i},{('bad', 'good')[i % 2]}" for i in range(40)
    ]
    (folder / "mine.csv").write_text("\n".join(["input,output", *rows]) + "\n")
    arguments = [
        "compare",
        "--data",
        str(folder / "mine.csv"),
        "--metric",
        "accuracy",
        "--shots",
        "3",
    ]
    arguments += ["--lm", "tiny", "--encoder", "tiny", "--method", "topk", "dpp"]
    assert main([*arguments, "--out", str(folder / "runs")]) == 0
    [file] = folder.glob("runs/report-*/report.html")
    return file


def test_it_can_be_read_at_both_widths_in_light_and_in_dark(page):
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        seen = {}
        for width in (390, 1280):
            for scheme in ("light", "dark"):
                window = browser.new_page(
                    viewport={"width": width, "height": 844}, color_scheme=scheme
                )
                errors = []
                # no bound method: playwright sets an attribute on what it is given
                window.on("pageerror", lambda error, errors=errors: errors.append(error))
                window.goto(page.as_uri())
                seen[width, scheme] = window.evaluate(SIZES)
                words = window.inner_text("body")
                assert not errors
                # the gain has one meaning, and only DPP-MAP has it; the browser shows it as A
                assert words.count("\tgain") == 1
                window.close()
        browser.close()
    for (width, _), found in seen.items():
        assert found["sideways"] <= 0
        assert found["unhinted"] == 0
        assert found["method"] < 60, "a method's name is not broken into letters"
        assert 300 < found["picture"] <= width
    assert len({found["shown"] for found in seen.values()}) == 2, "figures follow dark mode"
    assert len({found["background"] for found in seen.values()}) == 2
