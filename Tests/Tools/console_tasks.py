"""What people on call ask, answered from the overview, with the clicks and the time that it takes; a part of
console_browser.py."""

import re
import time

# A click of the mouse; a form that is sent by Enter clicks its button as well.
TALLY = """
addEventListener("click", (event) => {
    if (event.isTrusted && event.detail) sessionStorage.setItem("clicks", Number(sessionStorage.getItem("clicks")) + 1);
}, true);
"""
MOST_CLICKS = 3
MOST_SECONDS = 30


class Tasks:
    def tasks(self):
        self.task("why does billing fail", self.why)
        self.task("retry one", self.retry_one)
        self.task("retry 10,000 of one group", self.retry_group)
        self.task("find this device's messages of the last hour", self.find_device)
        self.task("is it worse than yesterday?", self.worse)
        self.task("who discarded these?", self.who_discarded)

    def task(self, question, step):
        def answer(page):
            page.add_init_script(TALLY)
            page.goto(self.url + "/")
            begin = time.monotonic()
            step(page)
            taken = time.monotonic() - begin
            clicks = int(page.evaluate("sessionStorage.getItem('clicks')") or 0)
            print(f"# {question}: {clicks} clicks, {taken:.1f} s", flush=True)
            assert clicks <= MOST_CLICKS, f"{clicks} clicks"
            assert taken <= MOST_SECONDS, f"{taken:.1f} s"

        self.act(question, answer)

    def why(self, page):
        page.locator("#over-handlers").get_by_role("link", name="billing", exact=True).click()
        page.wait_for_url("**/handlers/billing")
        page.locator("#handler").get_by_text("provider is down").wait_for()
        page.locator("#handler-groups tr", has_text="provider is gone").wait_for()

    def retry(self, page, count, done):
        dialog = page.locator("dialog[open]")
        dialog.get_by_text(f"This touches {count} dead letter").wait_for()
        dialog.get_by_label("Reason").fill("the provider is back")
        dialog.get_by_role("button", name=f"Retry {count}", exact=True).click()
        self.toast(page, f"Queued again: {done}")

    def retry_one(self, page):
        page.locator("#attention li", has_text="provider is gone").get_by_role("link", name="Look").click()
        page.wait_for_url("**/dead/letters*")
        page.locator("#dead-letters tbody tr").nth(2).get_by_role("button", name="Retry").click()
        self.retry(page, "1", "1")

    def retry_group(self, page):
        page.locator("#attention li", has_text="provider is gone").get_by_role("link", name="Retry").click()
        dialog = page.locator("dialog[open]")
        dialog.get_by_role("button", name="Count first").click()
        dialog.get_by_text("This touches").wait_for()
        self.retry(page, "10,000", "10,000")
        assert "#" not in page.url, "loaded again, the page would open the dialog again"

    def find_device(self, page):
        device = self.given["device"]
        page.get_by_label("Find messages").click()
        page.keyboard.type(f"device:{device} since:1h")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/messages?device={device}&since=1h")
        devices = page.locator("#message-rows a.key")
        devices.first.wait_for()
        addresses = set(devices.evaluate_all("(links) => links.map((link) => link.getAttribute('href'))"))
        assert addresses == {f"/messages?device={device}"}, f"messages of other devices: {addresses}"

    def worse(self, page):
        page.get_by_role("link", name="7 days").click()
        page.wait_for_url("**/?range=7d")
        cells = page.locator("#days td[data-label='Attempts failed']")
        cells.first.wait_for()
        today, before = (float(re.sub("[^0-9.]", "", text)) for text in cells.all_inner_texts())
        assert today > 20 > before > 0, f"{today} % failed today, {before} % yesterday"

    def who_discarded(self, page):
        page.get_by_role("link", name="Audit", exact=True).click()
        page.wait_for_url("**/audit")
        page.get_by_label("Action", exact=True).click()
        page.keyboard.type("dead.discard")
        page.keyboard.press("Enter")
        page.wait_for_url("**/audit?action=dead.discard")
        row = page.locator("tbody tr", has_text="group 'provider was slow'")
        row.wait_for()
        assert "ada" in row.inner_text() and "sent by hand" in row.inner_text(), row.inner_text()
