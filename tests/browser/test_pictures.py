"""The pictures in steps: by mouse, by keyboard, in print, without JavaScript, and with bad text."""

import pytest

from repro import player
from repro.paths import ROOT

pytestmark = pytest.mark.browser
BAD = "</script><img src=x onerror=alert(1)>"
PAGES = {
    "cache": "book/actkv.html",
    "credit": "book/toolsearcher.html",
    "episode": "book/code_skills.html",
    "graph": "book/graft.html",
}


@pytest.fixture(params=PAGES)
def shown(visit, request):
    page, troubles = visit(PAGES[request.param])
    yield page, page.locator(".eb-play")
    assert troubles == []


def count(play) -> tuple[int, int]:
    at, _, most = play.locator(".eb-count").inner_text().partition(" of ")
    return int(at), int(most)


def test_picture_answers_to_the_mouse(shown):
    page, play = shown
    at, most = count(play)
    assert at == most > 1
    said = play.locator(".eb-caption").inner_text()
    play.get_by_role("button", name="Previous").click()
    assert count(play) == (most - 1, most)
    assert play.locator(".eb-caption").inner_text() != said
    play.get_by_role("button", name="Next").click()
    assert count(play) == (most, most)
    assert play.get_by_role("button", name="Next").is_disabled()


def test_picture_answers_to_the_keyboard(shown):
    page, play = shown
    _, most = count(play)
    stage = play.locator(".eb-stage")
    stage.focus()
    for key, at in (("Home", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert count(play) == (at, most), key
    page.keyboard.press("End")
    assert count(play) == (most, most)
    play.locator("input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    assert count(play) == (most - 1, most)
    assert (
        play.locator("input[type=range]")
        .get_attribute("aria-valuetext")
        .endswith(f"{most - 1} of {most}")
    )


def test_another_track_shows_another_picture(shown):
    page, play = shown
    choice, caption = play.locator("select"), play.locator(".eb-caption")
    for step in ("Home", "End"):
        play.locator(".eb-stage").focus()
        page.keyboard.press(step)
    first = caption.inner_text() + play.locator(".eb-stage").inner_html()
    choice.select_option(index=1)
    assert caption.inner_text() + play.locator(".eb-stage").inner_html() != first


def test_play_runs_to_the_end_and_stops(visit):
    page, troubles = visit(PAGES["graph"])
    page.clock.install()
    play = page.locator(".eb-play")
    _, most = count(play)
    play.get_by_role("button", name="Play").click()
    assert count(play) == (1, most)
    page.clock.run_for(1300)
    assert count(play) == (2, most)
    play.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    assert count(play) == (2, most)
    play.get_by_role("button", name="Play").click()
    page.clock.run_for(1200 * most)
    assert count(play) == (most, most) and play.get_by_role("button", name="Play").count() == 1
    assert troubles == []


def test_token_tells_its_score_by_mouse_and_by_key(visit):
    page, _ = visit(PAGES["cache"])
    play = page.locator(".eb-play")
    detail, stage = play.locator(".eb-detail"), play.locator(".eb-stage")
    stage.locator("span.kept").first.hover()
    assert "cached, score " in detail.inner_text() and " of round " in detail.inner_text()
    stage.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert stage.locator(".eb-pointed").count() == 1
    stage.locator("span.gone").first.click()
    assert "evicted" in detail.inner_text() and "score" not in detail.inner_text()


@pytest.mark.parametrize("name", PAGES.values())
@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_picture_keeps_inside_its_column(visit, name, width):
    page, _ = visit(name, width)
    inside = page.evaluate(
        """() => [...document.querySelectorAll('.eb-play *')].filter(e =>
        !e.closest('.eb-stage') && e.getBoundingClientRect().right >
        e.closest('.eb-play').getBoundingClientRect().right + 1).length"""
    )
    assert inside == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", PAGES.values())
def test_still_stands_in_print_and_without_javascript(visit, name):
    page, _ = visit(name)
    still, play = page.locator(".eb-player img"), page.locator(".eb-play")
    assert play.is_visible() and not still.is_visible()
    page.emulate_media(media="print")
    assert still.is_visible() and not play.is_visible()
    plain, _ = visit(name, java_script_enabled=False)
    still = plain.locator(".eb-player img")
    still.scroll_into_view_if_needed()
    assert still.is_visible() and len(still.get_attribute("alt").split()) > 10
    assert still.bounding_box()["width"] > 100 and plain.locator(".eb-play").count() == 0


def test_hostile_text_stays_text(browser):
    page, troubles = browser.new_page(), []
    page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    cells = player.Frame(BAD, player.Cells((BAD, "\n"), "kp"))
    shapes = (player.box(5, 5, 90, 40, "plus", BAD), player.words(50, 30, BAD))
    drawing = player.Frame(BAD, player.Drawing(100, 50, shapes, BAD))
    made = player.Player(
        BAD, "five words of plain text", BAD, {BAD: [cells, drawing]}, notes=(BAD,)
    )
    data = player.html(player.payload(made))
    script = (ROOT / "book/_static/player.js").read_text()
    page.set_content(f'<div class="eb-player">{data}</div><script>{script}</script>')
    play = page.locator(".eb-play")
    for at in (1, 0):
        play.locator("input[type=range]").fill(str(at))
        assert "onerror=alert" in play.locator(".eb-stage").inner_text()
    play.locator(".eb-stage span, .eb-stage rect").first.hover()
    assert play.locator("img, script, [onerror]").count() == 0
    assert troubles == []
    page.close()
