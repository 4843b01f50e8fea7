"""The dashboard's own modules, asked in the browser."""

import pytest

WORDS = """async (calls) => {
  const format = await import("/dashboard/format.js");
  return calls.map(([name, ...values]) => format[name](...values));
}"""
# Makes random trees with and without keys, and turns one into the other.
MORPHING = """async (rounds) => {
  const { h, morph } = await import("/dashboard/dom.js");
  let seed = 1;
  const chance = (most) => (seed = (seed * 48271) % 2147483647) % most;
  const attributes = (key) => ({ "data-key": key, title: chance(2) ? String(chance(3)) : null });
  const children = (depth) => {
    const keys = [0, 1, 2, 3, 4].sort(() => chance(3) - 1).slice(0, chance(6));
    return keys.map((key) => tree(depth - 1, chance(2) ? String(key) : undefined));
  };
  const tree = (depth, key) => depth && chance(5)
    ? h(["p", "div", "b"][chance(3)], attributes(key), children(depth)) : String(chance(4));
  for (let round = 0; round < rounds; round++) {
    const [from, to] = [h("main", {}, children(4)), h("main", {}, children(4))];
    [from, to].forEach((each) => each.normalize());
    const [before, wanted] = [from.outerHTML, to.cloneNode(true)];
    morph(from, to);
    if (!from.isEqualNode(wanted)) return [before, wanted.outerHTML, from.outerHTML];
  }
  return [];
}"""

HOUR = """async (minutes) => {
  const { hourPanels } = await import("/dashboard/pages/hour.js");
  const nothing = { p50: null, p95: null };
  const drawn = minutes.map((each) => ({ ...each, runtime: nothing, wait: nothing }));
  return hourPanels(drawn, 3600).querySelector("text.most").textContent;
}"""


@pytest.fixture(scope="module")
def site(serve, chromium):
    return serve()


def test_numbers_and_spans_are_written_as_people_read_them(site, page):
    expected = {
        ("count", 1_000_000): "1,000,000",
        ("counted", 1, "job"): "1 job",
        ("counted", 0, "job"): "0 jobs",
        ("percent", 0.9834): "98.34 %",
        ("percent", 0): "0 %",
        ("span", 0): "0 s",
        ("span", 0.25): "250 ms",
        ("span", 1.5): "1.5 s",
        ("span", 42.4): "42 s",
        ("span", 60): "1 min",
        ("span", 3723): "1 h 2 min",
        ("span", 90_000): "1 d 1 h",
        ("relative", 100, 112): "12 s ago",
        ("relative", 172, 112): "in 1 min",
        ("relative", 112, 112): "now",
    }
    page.open(site)
    assert page.page.evaluate(WORDS, [list(call) for call in expected]) == list(expected.values())


@pytest.mark.parametrize(
    ("minute", "most"),
    [
        ({"seconds": 6.5, "succeeded": 2, "failed": 3}, "5 a minute"),  # it has just begun
        ({"seconds": 60, "succeeded": 2, "failed": 3}, "5 a minute"),
        ({"seconds": 120, "succeeded": 2, "failed": 8}, "5 a minute"),
        ({"seconds": 60, "succeeded": 0, "failed": 0}, "nothing yet"),
    ],
)
def test_the_most_attempts_a_minute_are_no_more_than_there_were(site, page, minute, most):
    page.open(site)
    assert page.page.evaluate(HOUR, [{"at": 3600, **minute}]) == most


def test_an_update_leaves_exactly_the_elements_that_were_wanted(site, page):
    page.open(site)
    assert page.page.evaluate(MORPHING, 2000) == []
