"""The page in a real browser: of real supervisors, and of documents that no cluster has so quickly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from supervisor.api.paths import PREFIX
from supervisor.api.responses import ApiResponse, error_response
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import SupervisorError
from tests.integration.test_api import FleetWithApi
from tests.testbed import page_site, requirements
from tests.testbed.page_site import Browser, MadeUpService, ago, entry

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def shared_browser() -> Iterator[Browser]:
    requirements.need("browser")
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Browser) -> Iterator[Browser]:
    """A tab of its own, so that it knows no token, and asks nobody any more when the test is over."""
    chrome = shared_browser.chrome
    first = chrome.current_window_handle
    chrome.switch_to.new_window("tab")
    shared_browser.fit()
    shared_browser.dark(False)
    shared_browser.complaints()
    yield shared_browser
    chrome.close()
    chrome.switch_to.window(first)


# -- real supervisors -------------------------------------------------------------------------------------------------


def test_the_page_shows_a_cluster_as_it_changes(
    browser: Browser, embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path
) -> None:
    (tmp_path / "fleet").mkdir()
    with FleetWithApi(embedded_ensemble, zk_root, tmp_path / "fleet") as fleet:
        fleet.submit("clicks", labels={"team": "web"})
        fleet.submit("parked", suspended=True)
        fleet.submit(
            "broken",
            knobs={"exit_code": 1, "exit_after_s": 0.3, "error": f"ValueError: {EVIL}"},
            restart={"strategy": "none"},
        )
        fleet.wait_state("clicks", "running")
        fleet.wait_state("broken", "failed", "quarantined")
        leader, standby = fleet.leader(), fleet.standby()
        browser.enter(fleet.urls[standby.id])

        browser.wait(lambda: len(browser.jobs()) == 3, "the jobs")
        browser.wait(lambda: hears_events(browser), "the stream of events")
        assert browser.jobs()[0] == "broken"  # what needs somebody comes first
        browser.wait_text(".leader", leader.id)
        browser.wait_text(".hosts", "s0", "s1", "leader", "drivers")
        browser.wait(lambda: browser.all("tbody .line"), "a line of what clicks has reported")
        browser.wait_text("tbody", "<img src=x onerror=")

        filters(browser)
        opens_by_keyboard(browser)
        shows_what_is_hostile_as_text(browser)

        is_updated_before_the_eyes(browser, fleet)
        fleet.cancel("parked")
        browser.wait(lambda: sorted(browser.jobs()) == ["broken", "clicks"], "the end of parked")
        epoch = fleet.epoch()
        fleet.kill(leader)
        assert fleet.wait_new_leader(epoch) is standby
        browser.wait_text(".leader", standby.id)
        browser.wait(lambda: len(browser.all(".host-card:not(.absent)")) == 1, "the host that is left")
        browser.picture("real-fleet")
        assert browser.complaints() == []


def hears_events(browser: Browser) -> bool:
    """Whether the page hears what changes, and does not ask all the time."""
    return bool(browser.all(".fresh[title='the supervisor tells what changes']"))


def filters(browser: Browser) -> None:
    browser.press("/")
    browser.press(*"park")
    browser.wait(lambda: browser.jobs() == ["parked"], "the filter")
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: len(browser.jobs()) == 3, "all jobs again")
    browser.press(*"team=web")
    browser.wait(lambda: browser.jobs() == ["clicks"], "the filter by a label")
    browser.press(Keys.ESCAPE)
    chip = next(each for each in browser.all(".chip") if each.text.startswith("suspended"))
    chip.click()
    browser.wait(lambda: browser.jobs() == ["parked"], "the filter by a state")
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    browser.all("thead button")[1].click()
    browser.wait(lambda: browser.jobs() == ["broken", "clicks", "parked"], "the order by name")
    browser.all("thead button")[1].click()
    browser.wait(lambda: browser.jobs() == ["parked", "clicks", "broken"], "the other order")


def opens_by_keyboard(browser: Browser) -> None:
    browser.press("/", *"clicks", Keys.ENTER)
    browser.wait(lambda: browser.jobs() == ["clicks"], "the filter")
    browser.press(Keys.ENTER)
    browser.wait_text(".head", "clicks", "running", "team=web")
    browser.wait_text(".timeline", "submitted", "assigned", "claimed", "attempt 1")
    browser.wait_text(".lines", "clicks is running", "nothing to do: it runs as wanted", "renewed")
    browser.wait_text(".query", "batch", "active")
    browser.wait(lambda: browser.all(".plots .line"), "a plot")
    browser.wait_text(".facts", "checkpoint", "file://")
    browser.picture("real-job")
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: browser.jobs() == ["clicks"], "the table as it was left")
    browser.wait(
        lambda: browser.chrome.switch_to.active_element.get_attribute("data-name") == "clicks", "the focus"
    )
    browser.press("/", Keys.ESCAPE)


def shows_what_is_hostile_as_text(browser: Browser) -> None:
    browser.wait(lambda: len(browser.jobs()) == 3, "all jobs")
    next(row for row in browser.all("tbody tr") if row.get_attribute("data-name") == "broken").click()
    browser.wait_text(".lines", "<img src=x onerror=")
    browser.wait_text(".remedies", "spark-supervisor")
    browser.wait_text(".timeline", "user error", "<img src=x onerror=")
    assert nothing_ran(browser)
    browser.picture("real-hostile")
    browser.chrome.back()
    browser.wait(lambda: len(browser.jobs()) == 3, "all jobs again")


def has_log(browser: Browser, attempt: int) -> None:
    """The log of the attempt is shown, or where it is: it may have run on the other host."""

    def shown() -> bool:
        note = browser.text(".logs .note")
        return f"Attempt {attempt}" in note or ("whose page shows it" in note and "--server https://" in note)

    browser.wait(shown, "the log, or where it is")


def is_updated_before_the_eyes(browser: Browser, fleet: FleetWithApi) -> None:
    """A changed spec is applied while somebody sees the job: the page follows without being touched."""
    row = next(row for row in browser.all("tbody tr") if row.get_attribute("data-name") == "clicks")
    row.click()
    browser.wait_text(".head", "clicks", "running", "team=web")
    browser.one(".logs summary").click()
    has_log(browser, 1)
    browser.chrome.execute_script("window.isSamePage = true")
    changed = fleet.spec_file("clicks", labels={"team": "web"}, args=["two"], update={"mode": "restart"})
    fleet.ok("apply", str(changed))
    browser.wait_text(".timeline", "attempt 2")
    browser.wait_text(".facts", "revision 1 to 2")
    browser.wait_text(".spec", "revision 2")
    browser.wait_text(".head", "running")
    has_log(browser, 2)
    browser.wait_text(".fresh", "live")
    assert browser.chrome.execute_script("return window.isSamePage"), "nothing was loaded again"
    browser.picture("real-update")
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: len(browser.jobs()) == 3, "all jobs again")


def nothing_ran(browser: Browser) -> bool:
    """No hostile text became an element, and the title is ours."""
    made = browser.all("img[src=x], #main script, main svg script")
    return made == [] and "run" not in browser.chrome.title.split()


# -- documents that are made up ---------------------------------------------------------------------------------------


def two_hosts() -> dict[str, Any]:
    return page_site.status(page_site.host("host-1", leader=True), page_site.host("host-2"))


@pytest.fixture
def service() -> MadeUpService:
    jobs = [page_site.job("clicks"), page_site.job("broken", "failed", trouble=None, reason="exit code 1")]
    made = MadeUpService({"/jobs": jobs, "/status": two_hosts(), "/explain": page_site.all_explained()})
    remedy = {"command": "spark-supervisor resume broken", "note": "starts it again"}
    history = [
        entry("submitted", 900, by="anna"),
        entry("user_error", 60, "exit code 1", count=3, last_at=ago(9), last_attempt=3),
    ]
    explanation = page_site.explained("broken", "failed", reason="exit code 1", failures=3, remedies=[remedy])
    page_site.add_job(made, jobs[1], explanation, history)
    page_site.add_job(made, jobs[0], page_site.explained("clicks"), history[:1], more_queries=3)
    return made


@pytest.fixture
def url(service: MadeUpService, tmp_path: Path) -> Iterator[str]:
    with page_site.made_up_site(service, tmp_path) as url:
        yield url


def test_each_text_of_each_document_is_shown_as_text(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    """Every string but those that choose a state is hostile; names of jobs can't be (``operations.names``)."""
    kept = {
        "name",
        "state",
        "uid",
        "at",
        "since",
        "renewed_at",
        "started_at",
        "next_attempt_at",
        "last_at",
        "until",
        "last_batch_at",
    }

    def hostile(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {EVIL if key == "labels" else name: hostile(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [hostile(each, key) for each in value]
        return EVIL if isinstance(value, str) and key not in kept else value

    service.documents = {path: hostile(document) for path, document in service.documents.items()}
    service.documents["/status"] |= {
        "distrust": EVIL,
        "paused": True,
        "pause": {"by": EVIL, "since": ago(9), "reason": EVIL},
    }
    service.documents["/explain"]["alarms"] = [EVIL]
    browser.enter(url)
    browser.wait(lambda: len(browser.jobs()) == 2, "the jobs")
    browser.wait_text("#banners", "<img src=x")
    assert nothing_ran(browser)
    for name in ("clicks", "broken"):
        browser.chrome.get(f"{url}/#/jobs/{name}")
        browser.wait_text(".head", name)
        browser.wait_text(".timeline", "<script>")
        browser.wait_text(".lines", "<script>")
        assert nothing_ran(browser)

    assert browser.complaints() == []


def test_ten_thousand_jobs_stay_usable(browser: Browser, service: MadeUpService, url: str) -> None:
    service.documents["/jobs"] = [page_site.job(f"job-{n:05}", labels={"n": str(n)}) for n in range(10_000)]
    browser.enter(url)
    browser.wait_text(".count", "10000 jobs, 1 to 200 are shown")
    assert len(browser.jobs()) == 200
    browser.press("/", *"job-09999")
    browser.wait(lambda: browser.jobs() == ["job-09999"], "the filter over all")
    script = "const from = performance.now(); document.getElementById('filter').dispatchEvent(new Event('input')); return performance.now() - from"
    assert browser.chrome.execute_script(script) < 1000  # about 20 ms on an idle machine
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: len(browser.jobs()) == 200, "a page")
    next(each for each in browser.all(".pages button") if each.text == "Next 200").click()
    browser.wait_text(".count", "201 to 400")
    assert browser.jobs()[0] == "job-00200"


def test_who_has_another_token_is_told(browser: Browser, url: str) -> None:
    browser.enter(url, "x" * 40)
    browser.wait_text(".trouble", "not known")
    assert browser.chrome.execute_script("return sessionStorage.length") == 0
    browser.one("#token").clear()
    browser.one("#token").send_keys(page_site.TOKEN, Keys.ENTER)
    browser.wait(lambda: browser.jobs(), "the jobs")
    assert browser.chrome.execute_script("return [localStorage.length, document.cookie, location.href]") == [
        0,
        "",
        f"{url}/",
    ]
    next(each for each in browser.all("#bar button") if each.text == "Sign out").click()
    assert browser.chrome.execute_script("return sessionStorage.length") == 0
    assert browser.all("#token") and browser.jobs() == []


def test_what_has_not_changed_is_not_sent_again_and_what_has_is_shown(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    browser.enter(url)
    browser.wait(lambda: len(browser.jobs()) == 2, "the jobs")
    browser.press("/", Keys.ENTER)
    row = browser.chrome.switch_to.active_element
    service.documents["/jobs"] = [*service.documents["/jobs"], page_site.job("added", "quarantined")]
    browser.wait(lambda: browser.jobs() == ["added", "broken", "clicks"], "the new job")
    assert browser.chrome.switch_to.active_element == row  # the focus stays where it was
    service.documents["/jobs"][0]["reason"] = "as before"
    del service.documents["/status"]
    browser.wait_text(".fresh", "not current")
    service.documents["/status"] = two_hosts() | {"leader": None}
    browser.wait_text("#banners", "Nobody leads")
    browser.wait_text(".fresh", "live")


def test_what_is_not_read_is_not_live_though_all_else_is(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    """While ZooKeeper is away the status is answered, and the jobs are not."""
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    jobs = service.documents.pop("/jobs")
    browser.wait_text(".fresh", "not current")

    watch = """window.said = []; const fresh = document.querySelector(".fresh");
    new MutationObserver(() => said.push(fresh.innerText)).observe(fresh, {childList: true, characterData: true, subtree: true})"""
    browser.chrome.execute_script(watch)

    def asked_for_status() -> int:
        return sum(target.endswith("/status") for target in service.asked)

    before = asked_for_status()
    browser.wait(lambda: asked_for_status() >= before + 3, "more readings of the status")
    assert "live" not in browser.chrome.execute_script("return said")
    service.documents["/jobs"] = jobs
    browser.wait_text(".fresh", "live")


def test_a_page_that_is_not_current_links_to_this_view_of_the_others(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    status = two_hosts()
    first = {**status["supervisors"][0], "api": url}
    addresses = ("https://host-b.example:8781", "javascript:alert(1)", "not an address", None)
    others = [{**first, "id": f"host-{number}", "api": api} for number, api in enumerate(addresses)]
    service.documents["/status"] = {**status, "supervisors": [first, *others]}
    browser.enter(url)
    browser.chrome.get(f"{url}/#/jobs/clicks")
    browser.wait_text(".fresh", "live")
    assert not browser.all(".others a")
    del service.documents["/status"]
    browser.wait_text(".others", "host-0")
    assert [each.get_attribute("href") for each in browser.all(".others a")] == [
        "https://host-b.example:8781/#/jobs/clicks"
    ]


def test_what_changes_is_told_and_without_a_stream_it_is_asked_for(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    service.hears_events = True
    browser.enter(url)
    browser.wait(lambda: hears_events(browser), "the stream")
    service.documents["/jobs"] = [page_site.job("clicks", "backoff"), *service.documents["/jobs"][1:]]
    browser.wait_text("#bar", "clicks: running → backoff", "live")
    browser.wait_text("tr.backoff", "clicks")

    service.cut_off()
    browser.wait(lambda: not hears_events(browser), "the end of the stream")
    service.documents["/jobs"] = [page_site.job("clicks", "pending"), *service.documents["/jobs"][1:]]
    browser.wait_text("tr.pending", "clicks")
    browser.wait_text(".fresh", "live")
    service.hears_events = True
    browser.wait(lambda: hears_events(browser), "another stream")
    del service.documents["/status"]
    browser.wait_text(".fresh", "not current")
    assert browser.complaints() == []


def test_a_job_that_is_shown_hears_of_itself(browser: Browser, service: MadeUpService, url: str) -> None:
    service.hears_events = True
    browser.enter(url)
    browser.wait(lambda: hears_events(browser), "the stream")
    browser.chrome.get(f"{url}/#/jobs/clicks")
    browser.wait_text(".head", "running")
    service.documents["/jobs"] = [page_site.job("clicks", "stopping"), *service.documents["/jobs"][1:]]
    service.documents["/jobs/clicks"] |= {"state": "stopping"}
    browser.wait_text("#bar", "clicks: running → stopping")
    browser.wait_text(".head", "stopping")
    assert browser.complaints() == []


def test_a_batch_is_held_against_its_trigger(browser: Browser, service: MadeUpService, url: str) -> None:
    def reported(batch_ms: float, at: str) -> None:
        progress = service.documents["/jobs"][0]["progress"]
        progress = progress | {"batch_ms": batch_ms, "at": at, "trigger_interval_s": 10.0}
        service.documents["/jobs"] = [
            page_site.job("clicks", progress=progress),
            *service.documents["/jobs"][1:],
        ]
        service.documents["/jobs/clicks"] |= {"progress": progress}

    reported(320.0, ago(9))
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/clicks")
    browser.wait_text(".plots", "320 ms", "trigger each 10.0 s")
    assert browser.all(".plots .late") == []
    reported(12_000.0, ago(1))
    browser.wait_text(".plots .late", "12.0 s")
    browser.wait(lambda: len(browser.all(".plots .mark")) == 1, "the line of the trigger")
    browser.chrome.get(f"{url}/#/")
    browser.wait_text("td.batch_ms .late", "12.0 s")


def test_only_an_address_of_the_web_is_a_link(browser: Browser, service: MadeUpService, url: str) -> None:
    shown = {
        "http://host-1.example.net:4040": True,
        "https://proxy/application_1": True,
        "javascript:document.title='run'": False,
        "http://user:secret@host:4040": False,
        "http://host/?x=1": False,
        EVIL: False,
    }
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/clicks")
    for address, is_link in shown.items():
        service.documents["/jobs/clicks"] |= {"spark_ui": address}
        browser.wait_text(".facts", address)
        links = browser.all(".facts a")
        assert len(links) == is_link, address
        if is_link:
            assert links[0].get_attribute("rel") == "noopener noreferrer"
            assert str(links[0].get_attribute("href")).rstrip("/") == address
    assert nothing_ran(browser)
    assert browser.complaints() == []


def opened_log(browser: Browser, url: str) -> None:
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/clicks")
    browser.wait_text(".logs", "the last 100 lines")
    browser.one(".logs summary").click()


def test_the_log_is_followed_as_text(browser: Browser, service: MadeUpService, url: str) -> None:
    path = f"{PREFIX}/jobs/clicks/logs"
    euro = "price 1 \u20ac\n".encode()
    pieces = [
        f"first\r\n\x1b[1;31mred\x1b[0m \x1b]0;title\x07 {EVIL}\n{'x' * 5000}\nabc\u202ecba\n".encode()
        + euro[:9],
        euro[9:] + b"no end",
    ]

    def answer(target: str) -> ApiResponse:
        number = int(target.partition("offset=")[2].partition(".")[0] or 0)
        headers = {
            "Log-Attempt": "3",
            "Link": f'<{path}?offset={min(number + 1, len(pieces))}.0>; rel="next"',
        }
        return ApiResponse(200, pieces[number] if number < len(pieces) else b"", headers, "text/plain")

    service.documents["/jobs/clicks/logs"] = answer
    opened_log(browser, url)
    browser.wait_text(".log", "first", "red \\u001b]0;title\\u0007 <img src=x", "price 1 \u20ac", "no end")
    browser.wait_text(".log", "(3000 more characters)", "abc\\u202ecba")
    browser.wait_text(".logs .note", "Attempt 3")
    browser.chrome.execute_script("document.querySelector('.logs').scrollIntoView()")
    browser.picture("log")
    assert "x" * 2001 not in browser.text(".log") and "\x1b" not in browser.text(".log")
    pieces.append(b" yet\nlast\n")
    browser.wait_text(".log", "no end yet", "last")
    pieces.append(b"line\n" * 3000 + b"the end\n")
    browser.wait_text(".log", "the end")
    assert len(browser.all(".log > span")) == 1000
    assert nothing_ran(browser)
    browser.one(".logs summary").click()
    count = len(service.asked)
    browser.wait(lambda: len(service.asked) > count + 5, "other readings")
    assert [each for each in service.asked[count + 1 :] if "/logs" in each] == [], (
        "a log that is closed is not read"
    )
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("server", "command"),
    [
        (
            "https://host-2.example.net:8781",
            "spark-supervisor logs clicks --server https://host-2.example.net:8781",
        ),
        ("javascript:alert(1)", "ssh host-2 spark-supervisor logs clicks"),
        (None, "ssh host-2 spark-supervisor logs clicks"),
    ],
)
def test_a_log_that_another_host_has(
    browser: Browser, service: MadeUpService, url: str, server: str | None, command: str
) -> None:
    error = SupervisorError("attempt 3 of clicks ran on host-2")
    elsewhere = error_response(421, error, more={"host": "host-2", "server": server})
    service.documents["/jobs/clicks/logs"] = lambda _target: elsewhere
    opened_log(browser, url)
    browser.wait_text(".logs .note", "host-2", command)
    links = [each.get_attribute("href") for each in browser.all(".logs .note a")]
    assert links == ([f"{server}/#/jobs/clicks"] if str(server).startswith("https") else [])
    assert browser.complaints() == []


def test_an_address_that_names_no_job_shows_the_table(browser: Browser, url: str) -> None:
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/broken")
    browser.wait_text(".head", "broken")
    browser.chrome.get(f"{url}/#/elsewhere")
    browser.wait(lambda: len(browser.jobs()) == 2, "the table")
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("Clicks", "No job Clicks"),
        ("clicks/attempts/9", "No job clicks/attempts/9"),
        ("%E0%A4%A", "No job %E0%A4%A"),
        ("%3Cimg%20src=x%3E", "No job <img src=x>"),
    ],
)
def test_an_address_of_what_can_be_no_job_is_said_to_be_so(
    browser: Browser, service: MadeUpService, url: str, address: str, shown: str
) -> None:
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/{address}")
    browser.wait_text(".missing h1", shown)
    assert nothing_ran(browser)
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: len(browser.jobs()) == 2, "the table")
    assert not any("/jobs/" in target for target in service.asked)
    assert browser.complaints() == []


def test_a_command_that_helps_is_copied(browser: Browser, url: str) -> None:
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    browser.chrome.get(f"{url}/#/jobs/broken")
    browser.wait(lambda: browser.all(".command button"), "the button")
    browser.one(".command button").click()
    browser.wait_text(".command button", "Copied")
    read = (
        "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"
    )
    assert browser.chrome.execute_async_script(read) == "spark-supervisor resume broken"
    browser.wait_text(".timeline", "attempts 1 to 3", "3 times")
    browser.chrome.get(f"{url}/#/jobs/clicks")
    browser.wait_text(".job", "and 3 more")


def test_the_first_line_says_that_nothing_is_heard_of_a_job(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    lease = service.documents["/jobs/clicks/explain"]["lease"]
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/clicks")
    browser.wait_text(".lines", "clicks is running on host-1")
    assert "nothing was heard" not in browser.text(".lines")
    service.documents["/jobs/clicks/explain"] |= {"lease": lease | {"silent": True}}
    browser.wait_text(".lines > div", "clicks is running on host-1, but nothing was heard of it for ")
    assert browser.complaints() == []


def test_diagnostics_are_told_where_they_are(browser: Browser, service: MadeUpService, url: str) -> None:
    known = {
        "attempt": 1,
        "host": "host-2",
        "path": "/var/log/broken/1.diagnostics.txt",
        "memory": "heap full",
    }
    for path in ("/jobs/broken", "/jobs/broken/explain"):
        service.documents[path] |= {"diagnostics": known}
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/broken")
    place = "attempt 1, host-2:/var/log/broken/1.diagnostics.txt"
    browser.wait_text(".lines", place, "spark-supervisor debug bundle broken", "attempt 1, heap full")
    browser.wait_text(".facts", place)
    assert browser.complaints() == []


def test_what_was_read_before_the_supervisor_went_is_not_shown_as_well(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    ground = "return getComputedStyle(document.querySelector('.light'), '::before').backgroundColor"
    browser.enter(url)
    browser.wait(lambda: browser.all(".light.good"), "the lights")
    well = browser.chrome.execute_script(ground)
    status = service.documents.pop("/status")
    browser.wait_text(".fresh", "not current")
    browser.wait_text("#bar", "as it was last read")
    assert browser.chrome.execute_script(ground) != well
    service.documents["/status"] = status
    browser.wait_text(".fresh", "live")
    browser.wait(lambda: browser.chrome.execute_script(ground) == well, "the lights again")
    assert "as it was last read" not in browser.text("#bar")


def test_a_job_that_is_not_there_is_said_to_be_so(browser: Browser, url: str) -> None:
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/nobody")
    browser.wait_text(".missing", "No job nobody", "nothing is at")
    assert not any(each.is_displayed() for each in browser.all(".card, .logs")), "no empty cards"
    browser.wait_text(".fresh", "live")
    browser.picture("missing")
    browser.one(".missing a").click()
    browser.wait(lambda: len(browser.jobs()) == 2, "the table")
    assert browser.complaints() == []


def test_a_job_that_is_cleaned_up_while_somebody_looks_is_said_to_be_gone(
    browser: Browser, service: MadeUpService, url: str
) -> None:
    browser.enter(url)
    browser.wait(lambda: browser.jobs(), "the jobs")
    browser.chrome.get(f"{url}/#/jobs/clicks")
    browser.wait_text(".timeline", "submitted")
    documents = service.documents
    service.documents = {path: each for path, each in documents.items() if "/jobs/clicks" not in path}
    browser.wait_text(".missing", "No job clicks any more")
    assert not any(each.is_displayed() for each in browser.all(".card, .logs"))
    service.documents = documents
    browser.wait_text(".head", "clicks", "running")
    browser.wait(lambda: not browser.one(".missing").is_displayed(), "the job again")
    assert browser.text(".timeline")
    assert browser.complaints() == []


def test_it_fits_a_phone_and_a_dark_room(service: MadeUpService, url: str) -> None:
    requirements.need("browser")
    service.documents["/jobs"][1]["reason"] = "x" * 300
    with Browser(phone=True, dark=True) as phone:
        phone.enter(url)
        phone.wait(lambda: phone.jobs(), "the jobs")
        for place in ("#/", "#/jobs/broken", "#/jobs/clicks"):
            phone.chrome.get(f"{url}/{place}")
            phone.wait(lambda: phone.all("tbody tr, .timeline li"), place)
            wide = "return [document.documentElement.scrollWidth, innerWidth]"
            scroll, inner = phone.chrome.execute_script(wide)
            assert scroll <= inner, place
            phone.picture(f"phone-dark{place.replace('/', '-')}")
        ground = "return getComputedStyle(document.body).backgroundColor"
        dark = phone.chrome.execute_script(ground)
        phone.dark(False)
        assert phone.chrome.execute_script(ground) != dark
        assert phone.complaints() == []
