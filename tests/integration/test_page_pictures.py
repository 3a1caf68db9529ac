"""The pictures of the page in the documents: of a cluster that is made up, so that they show no host of ours.

``REGENERATE_PICTURES=1 tests/run tests/integration/test_page_pictures.py`` writes them anew; then look at them. Without it the
same is shown, and nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import supervisor
from tests.testbed import page_site, requirements
from tests.testbed.page_site import Browser, MadeUpService, ago, entry

pytestmark = pytest.mark.browser

PICTURES = Path(supervisor.__file__).parent / "docs" / "pictures"

RUNNING = {
    "clicks-to-sessions": (1240.0, 5.0, "host-1"),
    "fraud-scores": (310.0, 1.0, "host-2"),
    "invoices": (95.0, None, "host-2"),
    "mobile-events": (4210.0, 10.0, "host-1"),
    "orders-enriched": (720.0, 5.0, "host-3"),
    "page-views": (11_600.0, 10.0, "host-3"),
    "stock-levels": (450.0, 30.0, "host-1"),
}
"""By job: milliseconds of a batch, seconds of its trigger, its host."""


def running(name: str, batch_ms: float, interval_s: float | None, host: str, teams: str) -> dict[str, Any]:
    shown = page_site.job(name, supervisor=host, host=f"{host}.example.net", reason=f"running on {host}")
    progress = {"query": name, "batch_ms": batch_ms, "trigger_interval_s": interval_s, "batch_id": 18_422}
    return shown | {"progress": shown["progress"] | progress, "labels": {"team": teams}, "restarts": 0}


def made_up_cluster() -> MadeUpService:
    jobs = [
        running(name, *numbers, teams=("web", "pay", "shop")[n % 3])
        for n, (name, numbers) in enumerate(RUNNING.items())
    ]
    waits = {"attempt": 4, "failures": 2, "next_attempt_at": ago(-40), "restarts": 4}
    why = "attempt 4 failed: ValueError: schema of topic returns has changed; next attempt in 40 s"
    jobs += [
        page_site.job(
            "returns", "backoff", reason=why, labels={"team": "shop"}, host=None, supervisor=None, **waits
        ),
        page_site.job(
            "audit-trail",
            "quarantined",
            reason="failed 5 times in 10 min: exit code 1",
            host=None,
            supervisor=None,
        ),
        page_site.job("backfill", "suspended", reason="suspended by anna", host=None, supervisor=None),
    ]
    hosts = [
        page_site.host(f"host-{n}", leader=n == 2, drivers=12 + n, labels={"zone": "abc"[n - 1]})
        for n in (1, 2, 3)
    ]
    jobs.sort(key=lambda each: str(each["name"]))
    made = MadeUpService(
        {"/jobs": jobs, "/status": page_site.status(*hosts), "/explain": page_site.all_explained()}
    )
    history = [
        entry("submitted", 90_000, by="anna"),
        entry("assigned", 89_990, "to host-2"),
        entry("claimed", 89_985),
        entry("savepoint", 40_000, "nightly-2026-11-26", by="schedule"),
        entry("host_gone", 4100, "host-2 went down; its lease ended", attempt=1),
        entry("assigned", 4060, "to host-3, where a driver is prepared", attempt=2),
        entry("claimed", 4058, attempt=2),
        entry("updated", 4000, "revision 2: args", by="ben", attempt=2),
        entry("assigned", 3990, "revision 2 replaces 1; a driver is ready on host-3", attempt=3),
        entry("claimed", 3989, attempt=3),
    ]
    shown = next(each for each in jobs if each["name"] == "page-views")
    explanation = page_site.explained("page-views", reason="running on host-3", host="host-3")
    queries = [page_site.query("page-views", batch_ms=11_600.0, trigger_interval_s=10.0, lag=8120.0)]
    more = {"queries": queries, "spark_ui": "http://host-3.example.net:4040", "checkpoint_fence": "on"}
    page_site.add_job(made, shown, explanation, history, **more)
    return made


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    requirements.need("browser")
    with page_site.made_up_site(made_up_cluster(), tmp_path) as url:
        yield url


def with_figures(browser: Browser) -> None:
    """Has the page remember what jobs would have reported for some minutes."""
    script = """
        const [jobs, done] = arguments;
        import("/page/plot.js").then(({ remember }) => {
          for (const [name, ms] of jobs)
            for (let n = 0; n < 60; n += 1) {
              const wave = 0.75 + 0.2 * Math.sin(n / 5 + ms) + 0.05 * Math.cos(n * 1.7);
              remember(`job uid-${name}`, { at: `made up ${n}`, batch_ms: ms * wave * (n > 45 ? 1 + (n - 45) / 60 : 1),
                lag: 20 * wave * wave, input_rows_per_s: 900 + 400 * wave });
            }
          done(null);
        }, (error) => done(String(error)));
    """
    jobs = [[name, numbers[0]] for name, numbers in RUNNING.items()]
    assert browser.chrome.execute_async_script(script, jobs) is None


def take(browser: Browser, name: str) -> None:
    if os.environ.get("REGENERATE_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        browser.chrome.save_screenshot(str(PICTURES / f"{name}.png"))


def shows_the_fleet(browser: Browser, url: str) -> None:
    browser.enter(url)
    browser.wait(lambda: len(browser.jobs()) == 10, "the jobs")
    with_figures(browser)
    browser.chrome.get(f"{url}/#/jobs/page-views")
    browser.wait_text(".timeline", "submitted")
    browser.chrome.get(f"{url}/#/")
    browser.wait(lambda: len(browser.all("tbody .line")) >= len(RUNNING), "the lines of what was reported")
    browser.wait_text(".fresh", "live")


def test_the_fleet_and_one_job(url: str) -> None:
    with Browser() as browser:
        browser.size(1280, 760, 1)
        shows_the_fleet(browser, url)
        wide = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert browser.chrome.execute_script(wide), "the table has room beside it"
        take(browser, "fleet-light")
        browser.dark(True)
        take(browser, "fleet-dark")
        browser.dark(False)
        browser.chrome.get(f"{url}/#/jobs/page-views")
        browser.wait_text(".plots", "trigger each 10.0 s")
        browser.wait_text(".facts", "http://host-3.example.net:4040")
        browser.size(1180, 700, 1)
        browser.wait_text(".timeline", "revision 2: args")
        take(browser, "job")
        assert browser.complaints() == []


def test_a_phone(url: str) -> None:
    with Browser(phone=True) as phone:
        phone.size(390, 760, 1.5)
        shows_the_fleet(phone, url)
        take(phone, "phone")
        assert phone.complaints() == []
