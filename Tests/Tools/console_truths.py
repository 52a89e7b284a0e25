"""Whether pages say what is so while something is wrong, or changes; a part of console_browser.py.

Faults are made between browser and console, and time is the browser's own: nothing is waited for.
"""

import json
import re

DOWN = '<!DOCTYPE html><html><body><main id="main"><h1>The database does not answer</h1></main></body></html>'
EXACT = '{"n":9007199254740993,"price":10.00,"long":123456789012345678901234567890,"s":"a \\"},\\" b","o":{"data":[1.0]}}'


class Truths:
    def truths(self):
        self.faults = "status of 503|ERR_FAILED"
        self.act("a page that can't be refreshed says so", self.staleness)
        self.act("a refresh keeps focus, selection and scrolling", self.steady)
        self.act("the tail: exact numbers, new ones counted, and told when it is cut", self.tail_truths)
        self.act("hidden tails leave the connections to others", self.hidden_tails)
        self.act("six tails that are seen keep no seventh page waiting", self.six_tails)
        self.faults = None
        self.act("cancel cancels, close closes", self.cancels)

    def staleness(self, page):
        page.clock.install()
        page.goto(self.url + "/")
        main, bar = page.locator("main"), page.locator("#stale")
        state = {"status": 503}

        def answer(route):
            if route.request.resource_type != "fetch" or state["status"] == 200:
                return route.fallback()
            if state["status"] == 0:
                return route.abort()
            return route.fulfill(status=503, content_type="text/html", body=DOWN)

        page.route(re.compile(r"/$"), answer)
        start = page.evaluate("Date.now()")
        shown = main.get_attribute("data-at")[11:19]
        assert bar.count() == 0, "it is stale at once"
        page.clock.run_for(5_100)
        bar.get_by_text("the database does not answer.").wait_for()
        first = bar.inner_text()
        assert f"As of {shown} UTC" in first, f"{first!r} does not say {shown}"
        assert page.evaluate("getComputedStyle(document.getElementById('figures')).opacity") == "0.5", "figures are not greyed"
        state["status"] = 0
        # Each attempt waits twice as long as the one before.
        page.clock.run_for(12_000)
        bar.get_by_text("can’t be reached").wait_for()
        age = int(re.search(r"UTC, (\d+) s ago", bar.inner_text())[1])
        passed = page.evaluate("Date.now()") / 1000 - start / 1000
        assert passed >= 17 and -3 <= age - passed <= 6, f"{passed:.0f} s have passed, and the bar says {age} s"
        state["status"] = 200
        with page.expect_response(re.compile(r"/$")):
            page.clock.run_for(30_000)
        bar.wait_for(state="detached")
        assert page.evaluate("getComputedStyle(document.getElementById('figures')).opacity") == "1", "figures stay grey"
        assert main.get_attribute("data-at")[11:19] >= shown

    def steady(self, page):
        page.set_viewport_size({"width": 700, "height": 500})
        page.clock.install()
        page.goto(self.url + "/")
        link = page.locator("#over-handlers a").first
        link.focus()
        page.evaluate(
            """() => {
                window.heading = document.querySelector("#over-handlers h2");
                getSelection().selectAllChildren(window.heading);
                scrollTo(0, 120);
            }"""
        )
        before = page.evaluate("[getSelection().toString(), document.activeElement.href, scrollY]")
        assert before[0] and before[2] > 0, f"nothing is selected or scrolled: {before}"
        at = page.locator("main").get_attribute("data-at")
        with page.expect_response(re.compile("/$")):
            page.clock.run_for(5_100)
        page.wait_for_function("(at) => document.getElementById('main').dataset.at !== at", arg=at)
        after = page.evaluate("[getSelection().toString(), document.activeElement.href, scrollY]")
        assert after == before, f"{before} became {after}"
        assert page.evaluate("window.heading.isConnected"), "what was the same was made anew"

    def streamed(self, number):
        key = f"00000000-0000-4000-8000-{number:012d}"
        head = f'{{"message_key":"{key}","received_at":"2026-03-01T10:00:00.000000Z","category":"c","message_id":"exact-{number}"'
        return f'data: {head},"device_key":"{key}","sender_id":"1","data":{EXACT}}}\n\n'

    def tail_truths(self, page):
        now = {"status": 200, "body": self.streamed(1)}

        def stream(route):
            kind = "text/event-stream" if now["status"] == 200 else "application/problem+json"
            route.fulfill(status=now["status"], content_type=kind, body="retry: 50\n\n" + now["body"])

        page.route("**/messages/stream*", stream)
        page.goto(self.url + "/messages?category=com.example.live")
        page.get_by_role("button", name="Live tail").click()
        first = page.locator("#message-rows tr", has_text="exact-1")
        first.wait_for()
        text = first.locator("code").inner_text()
        assert text == EXACT[:160], f"the tail shows {text!r}"
        first.hover()
        now["body"] = self.streamed(1) + self.streamed(2)
        page.get_by_role("button", name="1 new").wait_for()
        assert page.locator("#message-rows tr", has_text="exact-2").count() == 0, "rows move under the pointer"
        page.mouse.move(2, 2)
        page.locator("#message-rows tr", has_text="exact-2").wait_for()
        assert page.locator("#stale").count() == 0, "a stream that ends and is opened again is no fault"
        now["status"] = 503
        page.locator("#stale", has_text="can’t read the database").wait_for()
        page.get_by_role("button", name="Tail is interrupted").click()
        page.locator("#stale").wait_for(state="detached")

    def hidden_tails(self, page):
        page.goto(self.url + "/messages")
        with page.expect_request("**/messages/stream*"):
            page.get_by_role("button", name="Live tail").click()
        hide = """(hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
        with page.expect_event("requestfailed", lambda request: "messages/stream" in request.url):
            page.evaluate(hide, True)
        with page.expect_request("**/messages/stream*limit=200*"):
            page.evaluate(hide, False)

    def six_tails(self, page):
        pages = [page] + [self.page(page.context, "one of six tails") for _ in range(5)]
        shown = "document.querySelectorAll('#message-rows tr.fresh').length"
        for tail in pages:
            tail.goto(self.url + "/messages?category=com.example.live", timeout=20_000)
            tail.get_by_role("button", name="Live tail").click()
        for tail in pages:
            tail.wait_for_function(f"{shown} > 3", timeout=20_000)
        seventh = self.page(page.context, "the page beside six tails")
        seventh.goto(self.url + "/", timeout=20_000)
        seventh.locator("#trends .chart").first.wait_for(timeout=20_000)
        # They go on, and nobody is told that one was cut.
        latest = "document.querySelector('#message-rows tr').dataset.key"
        for tail in pages:
            tail.wait_for_function(f"(key) => {latest} !== key", arg=tail.evaluate(latest), timeout=20_000)
            assert tail.locator("#stale").count() == 0, tail.locator("#stale").inner_text()
        page.get_by_role("button", name="Tail is live").click()

    def cancels(self, page):
        page.goto(self.url + "/dead/letters?handler=billing")
        for name in ("Retry these", "Discard these"):
            page.get_by_role("button", name=name).click()
            dialog = page.locator("dialog[open]")
            assert dialog.get_by_role("button", name="Cancel").count() == 0, "there is nothing to cancel yet"
            dialog.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Retry these").click()
        dialog = self.confirm(page, "Count first", "a trial")
        dialog.get_by_text("This touches").wait_for()
        with page.expect_response(re.compile("/api/v1/jobs/.*/cancel")) as answer:
            dialog.get_by_role("button", name="Cancel").click()
        job = json.loads(answer.value.text())
        assert job["state"] == "cancelled", f"it is {job['state']}"
        self.toast(page, "Cancelled: 0 of")
        page.goto(self.url + "/jobs")
        page.get_by_role("heading", name="Jobs").wait_for()
