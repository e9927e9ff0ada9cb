"""Pages in a real browser: nothing overlaps, is cut or reaches out of the window, and no planted markup does anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostdoctor.report import html
from tests.unit.report.browser import NAMES, Browser, find_browser
from tests.unit.report.hosts import HOSTS, MARKUP, report

HERE = Path(__file__).parent
MEASURE, CONTRAST = ((HERE / name).read_text("utf-8") for name in ("measure.js", "contrast.js"))
CASES = HERE.parents[1] / "cases"
PHONE, DESK = 360, 1280
UNFOLD = "document.querySelectorAll('details').forEach(each => { each.open = true })"
EMBEDDED = '{"a": "</script><script>window.ran=3</script>"}'
PLANTED = '<script>ran=1</script><img src="data:," onerror="ran=2"></main>'
SEEN = "[...document.querySelectorAll({!r})].filter(each => each.checkVisibility()).length"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None and os.environ.get("CI"):
        pytest.fail(f"no browser is installed: {' or '.join(NAMES)}")
    if program is None:
        pytest.skip(f"needs a browser: {' or '.join(NAMES)}")
    with Browser(program, tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a host, written once."""
    folder, written = tmp_path_factory.mktemp("pages"), {}

    def write(name):
        if name not in written:
            written[name] = folder / f"{name}.html"
            text = html.render(
                report(HOSTS[name]()), embedded='{"a": "</script><script>window.ran=3</script>"}', notes=(MARKUP,)
            )
            written[name].write_text(text, "utf-8")
        return written[name]

    return write


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", HOSTS)
def test_nothing_overlaps_or_is_cut(browser, page, name, width):
    browser.open(page(name), width)
    assert browser.evaluate(MEASURE) == []
    browser.evaluate(UNFOLD)
    assert browser.evaluate(MEASURE) == []


@pytest.mark.parametrize("case", ["seed-v620-before", "seed-v620-after", "seed-blackwell-ada"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_seeds(browser, scan, tmp_path, case, width):
    (tmp_path / "page.html").write_text(html.render(scan(CASES / case / "input").report), "utf-8")
    browser.open(tmp_path / "page.html", width)
    browser.evaluate(UNFOLD)
    assert browser.evaluate(MEASURE) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["measured", "eight_gpus", "guest", "nothing_above"])
def test_text_stands_out_from_its_ground(browser, page, name, dark):
    browser.open(page(name), DESK, dark=dark)
    browser.evaluate(UNFOLD)
    assert browser.evaluate(CONTRAST) == []
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is not dark


def test_planted_markup_is_text(browser, page):
    browser.open(page("hostile"))
    browser.evaluate(UNFOLD)
    assert browser.evaluate("window.ran") is None
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("[...document.scripts].map(each => each.type)") == ["application/json"]
    assert browser.evaluate("JSON.parse(document.getElementById('hostdoctor').textContent).a").startswith("</script>")
    assert browser.evaluate("document.body.innerText").count("<script>window.ran=1</script>") > 5


def test_a_script_that_got_in_would_not_run(browser, page, tmp_path):
    """The policy in the page is the second line, should escaping ever fail."""
    text = page("one_gpu").read_text("utf-8").replace("</main>", PLANTED)
    (tmp_path / "page.html").write_text(text, "utf-8")
    browser.open(tmp_path / "page.html")
    assert browser.evaluate("window.ran") is None


def test_paper_shows_what_is_folded(browser, page):
    browser.open(page("measured"), 700, media="print", dark=True)
    assert browser.evaluate("[...document.querySelectorAll('details')].filter(each => each.open).length") == 0
    assert (
        browser.evaluate(SEEN.format(".evidence dd"))
        == browser.evaluate("document.querySelectorAll('.evidence dd').length")
        > 0
    )
    assert browser.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"


def test_folded_on_the_screen(browser, page):
    browser.open(page("sixty_four_gpus"))
    assert browser.evaluate(SEEN.format(".panels svg")) == 0
    browser.open(page("eight_gpus"))
    assert browser.evaluate(SEEN.format(".panels svg")) == 2
    assert browser.evaluate(SEEN.format(".evidence dd")) == 0
