"""What people do on the console's pages; a part of console_browser.py."""

import re

from playwright.sync_api import Error


class Actions:
    """Each action has a page of its own; what is left of it is looked at as every page is."""

    def act(self, name, step):
        context = self.context("operator")
        page = self.page(context, name)
        try:
            step(page)
            self.counts["actions"] += 1
            self.check(page, name)
        except (Error, AssertionError) as error:
            page.screenshot(path=f"{self.folder}/failed-{re.sub('[^a-z]+', '-', name)}.png")
            self.problem(name, f"{str(error).splitlines()[0]}; the page says: {page.locator('main').inner_text()[:300]!r}")
        context.close()

    def confirm(self, page, label, reason):
        dialog = page.locator("dialog[open]")
        dialog.wait_for()
        if dialog.get_by_label("Reason").count():
            dialog.get_by_label("Reason").fill(reason)
        dialog.get_by_role("button", name=label).click()
        return dialog

    def toast(self, page, text):
        page.locator("#toasts .notice", has_text=text).wait_for()

    def looking(self):
        self.act("theme", self.theme)
        self.act("menu", self.menu)
        self.act("live tail", self.tail)
        self.act("filter", self.filter)
        self.act("fold and copy", self.fold)
        self.act("one line a row", self.one_line)
        self.act("search box", self.find)
        self.act("saved views", self.views)
        self.act("overview draws lines as it is fetched again", self.lines)
        self.act("viewer", self.viewer)
        self.act("sign out", self.sign_out)

    def actions(self):
        self.act("pause and resume", self.pause)
        self.act("dialog with a refusal", self.refusal)
        self.act("dead letters: choose some", self.choose)
        self.act("dead letters: retry", lambda page: self.dead(page, "Retry", "Queued again"))
        self.act("dead letters: discard", lambda page: self.dead(page, "Discard", "Discarded"))
        self.act("retry now", self.retry_now)
        self.act("give up deliveries", self.give_up)
        self.act("release a conflict", self.release)
        self.act("dismiss a stanza", self.dismiss)
        self.act("replay", self.replay)
        self.act("reveal a token", self.reveal)
        self.act("audit trail", self.audit)
        self.act("forget a device, run retention", self.forget)

    def theme(self, page):
        page.goto(self.url + "/")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Dark theme").click()
        page.goto(self.url + "/messages")
        after = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert before != after, "the theme is not kept"

    def menu(self, page):
        page.set_viewport_size({"width": 360, "height": 740})
        page.goto(self.url + "/")
        assert not page.locator("#nav").is_visible(), "the navigation is open at once"
        page.get_by_role("button", name="Menu").click()
        page.get_by_role("link", name="Retention", exact=True).click()
        page.wait_for_url("**/retention")

    def tail(self, page):
        page.goto(self.url + "/messages?category=com.example.live")
        local = page.locator("time[datetime]").first
        first = page.locator("#message-rows tr").count()
        page.get_by_role("button", name="Live tail").click()
        page.wait_for_function("(first) => document.querySelectorAll('#message-rows tr.fresh').length > 3", arg=first)
        page.get_by_role("button", name="Tail is live").click()
        page.wait_for_timeout(100)
        assert "local time" in (local.get_attribute("title") or ""), "no local time"

    def lines(self, page):
        page.set_viewport_size({"width": 1200, "height": 750})
        page.goto(self.url + "/")
        page.get_by_role("link", name="Messages").first.focus()
        page.locator("#trends .chart .line").first.wait_for()
        assert page.evaluate("document.activeElement.textContent.trim()") == "Messages", "the focus was lost"
        page.screenshot(path=f"{self.folder}/overview-live.png", caret="initial")

    def filter(self, page):
        page.goto(self.url + "/messages")
        page.get_by_label("Category").fill("com.example.live")
        page.get_by_label("Received since").fill("1h")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**category=com.example.live*since=1h*")
        assert page.get_by_label("Received since").input_value() == "1h", "the form forgets"
        page.get_by_role("link", name="Next page").click()
        page.wait_for_url("**after=*")
        page.get_by_role("link", name="First page").click()
        page.locator("#message-rows a.mono").first.click()
        page.wait_for_url("**/messages/*-*-*-*-*")

    def one_line(self, page):
        page.set_viewport_size({"width": 1920, "height": 900})
        page.goto(self.url + "/messages")
        rows = page.locator("#message-rows tr")
        heights = {round(box["height"]) for box in (rows.nth(number).bounding_box() for number in range(10))}
        assert heights == {28}, f"rows are {heights} px high"
        assert page.locator("#message-rows").bounding_box()["width"] > 1600, "the page is not as wide as the window"
        page.set_viewport_size({"width": 360, "height": 740})
        page.goto(self.url + "/deliveries?handler=orders")
        cell = page.locator("td[data-label=Reason]").first
        lefts = cell.evaluate("(cell) => Array.from(cell.children, (part) => Math.round(part.getBoundingClientRect().left))")
        assert len(set(lefts)) == 1, f"a second line is not under its value: {lefts}"

    def find(self, page):
        page.goto(self.url + "/handlers")
        page.keyboard.press("/")
        page.keyboard.type("category:com.example.live since:1h")
        page.keyboard.press("Enter")
        page.wait_for_url("**/messages?category=com.example.live&since=1h")
        assert page.get_by_label("Received since").input_value() == "1h", "the form does not say what the box says"
        box = page.get_by_label("Find messages")
        assert box.input_value() == "category:com.example.live since:1h", "the box forgets"
        names = {"handlers": [{"handler": "a \"b\""}]}
        page.route("**/api/v1/overview", lambda route: route.fulfill(json=names))
        page.reload()
        box.fill("category:\"x y\" ha")
        option = page.locator("#find-terms option").first
        option.wait_for(state="attached")
        assert option.get_attribute("value") == "category:\"x y\" handler:\"a \\\"b\\\"\"", option.get_attribute("value")
        box.fill("sinze:1h")
        box.press("Enter")
        page.get_by_text("did you mean 'since:'?").wait_for()

    def views(self, page):
        page.goto(self.url + "/messages?category=com.example.live")
        page.evaluate("window.prompt = () => 'live <b>'")
        page.get_by_role("button", name="Save view").click()
        page.get_by_role("button", name="Forget live <b>").wait_for()
        page.goto(self.url + "/messages")
        page.get_by_role("link", name="live <b>").click()
        page.wait_for_url("**/messages?category=com.example.live")
        page.get_by_role("button", name="Forget live <b>").click()
        page.get_by_role("button", name="Save view").wait_for()
        assert page.get_by_role("link", name="live <b>").count() == 0, "it is not forgotten"
        # What another program left under the same host and port: no script, and nothing that keeps the page from working.
        page.evaluate("localStorage.setItem('/messages', JSON.stringify({ odd: 'javascript:window.__ran=1' }))")
        page.reload()
        page.get_by_role("link", name="odd", exact=True).wait_for()
        self.check(page, "a view of another program", None)
        page.evaluate("localStorage.setItem('/messages', 'no JSON')")
        page.reload()
        page.evaluate("localStorage.removeItem('/messages')")

    def pause(self, page):
        page.goto(self.url + "/handlers")
        page.get_by_role("link", name="orders", exact=True).click()
        page.wait_for_url("**/handlers/orders")
        page.get_by_role("button", name="Pause").click()
        self.confirm(page, "Pause", "maintenance <script>window.__ran=1</script>")
        self.toast(page, "Paused orders")
        page.get_by_text("maintenance <script>window.__ran=1</script>").wait_for()
        page.get_by_role("button", name="Resume").click()
        self.toast(page, "Resumed orders")

    def refusal(self, page):
        page.goto(self.url + "/handlers/orders")
        page.get_by_role("button", name="Pause").first.click()
        page.evaluate("document.querySelector('dialog[open] form').dataset.action = '/api/v1/handlers/none/pause'")
        dialog = self.confirm(page, "Pause", "a handler that is not there")
        dialog.locator(".notice.bad", has_text="no handler").wait_for()

    def dead(self, page, label, done):
        page.goto(self.url + "/dead")
        page.locator("#dead-groups a.mono").first.click()
        page.wait_for_url("**/dead/letters*")
        page.get_by_role("button", name=f"{label} group").click()
        dialog = self.confirm(page, "Count first", "the provider is back")
        dialog.get_by_text("This touches").wait_for()
        self.check(page, f"dialog of {label}")
        page.screenshot(path=f"{self.folder}/dead-{label.lower()}-dialog.png", caret="initial")
        dialog.get_by_role("button", name=re.compile(f"{label} [0-9]")).click()
        self.toast(page, done)

    def choose(self, page):
        page.goto(self.url + "/dead/letters?handler=billing")
        discard = page.get_by_role("button", name="Discard chosen")
        assert discard.is_disabled(), "nothing is chosen yet"
        for number in (0, 1):
            page.locator("input[data-choose]").nth(number).check()
        discard.click()
        dialog = self.confirm(page, "Count first", "two of them")
        dialog.get_by_text("This touches 2 dead letters").wait_for()
        dialog.get_by_role("button", name="Discard 2").click()
        self.toast(page, "Discarded: 2")

    def fold(self, page):
        page.goto(self.url + self.given["pages"]["message"])
        sku = page.locator("[data-path=data] .j-text", has_text="A-5")
        sku.click()
        page.get_by_role("button", name="Copy value").wait_for()
        place = page.locator(".copy code").inner_text()
        assert place == "data.items[0].sku", f"its path is {place}"
        page.get_by_role("button", name="Copy path").click()
        self.toast(page, "Copied")
        page.locator("[data-path=data] summary").first.click()
        assert not sku.is_visible(), "the object does not fold"

    def retry_now(self, page):
        page.goto(self.url + "/deliveries?handler=orders")
        page.get_by_role("button", name="Retry now").first.click()
        self.toast(page, "Due now")
        page.goto(self.url + "/deliveries?handler=billing")
        page.get_by_role("button", name="Retry all now").click()
        self.confirm(page, "Retry all now", "the provider is back")
        self.toast(page, "Due now")

    def give_up(self, page):
        page.goto(self.url + "/deliveries?handler=billing")
        page.get_by_role("button", name="Give up these").click()
        dialog = self.confirm(page, "Count first", "no longer wanted")
        dialog.get_by_text(re.compile("This touches [0-9,]+ waiting")).wait_for()
        self.check(page, "dialog of giving up")
        dialog.get_by_role("button", name=re.compile("Give up [0-9]")).click()
        self.toast(page, "Given up")
        page.get_by_text("Nothing matches").wait_for()

    def forget(self, page):
        page.goto(self.url + self.given["pages"]["message"])
        page.locator("a[href^='/messages?device=']").first.click()
        page.get_by_role("button", name="Forget this device").click()
        dialog = self.confirm(page, "Count first", "she asked")
        dialog.get_by_text(re.compile("This touches [0-9,]+ messages?")).wait_for()
        self.check(page, "dialog of forgetting a device")
        dialog.get_by_role("button", name=re.compile("Ask to erase [0-9]")).click()
        page.wait_for_url("**/retention")
        page.get_by_text("she asked").first.wait_for()
        page.get_by_role("button", name="Run retention now").click()
        dialog = self.confirm(page, "Count first", "disk full")
        dialog.get_by_text(re.compile("This touches [0-9,]+ days? of messages")).wait_for()
        dialog.get_by_role("button", name="Run 1").click()
        self.toast(page, "Asked for: 1")
        page.get_by_text("disk full").first.wait_for()

    def release(self, page):
        page.goto(self.url + self.given["pages"]["conflict"])
        assert page.locator(".diff .gone").count() > 0, "no difference is shown"
        page.get_by_role("button", name="Release").click()
        self.confirm(page, "Release", "the second copy is right")
        self.toast(page, "Released")
        page.reload()
        page.get_by_text("handlers know it as").wait_for()

    def dismiss(self, page):
        page.goto(self.url + "/quarantine")
        before = page.locator("#stanzas tbody tr").count()
        page.get_by_role("button", name="Dismiss").first.click()
        self.toast(page, "Dismissed")
        page.wait_for_function("(count) => document.querySelectorAll('#stanzas tbody tr').length < count", arg=before)
        page.get_by_label("State").select_option("dismissed")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**/quarantine?state=dismissed")
        page.locator("#stanzas tbody tr").first.wait_for()

    def replay(self, page):
        page.goto(self.url + "/messages?category=com.example.orders")
        page.get_by_role("link", name="Replay these").click()
        page.get_by_label("Send", exact=True).select_option("all")
        page.get_by_label("To", exact=True).select_option("orders")
        page.get_by_role("button", name="Plan it").click()
        page.get_by_text("The filter selects").first.wait_for()
        self.check(page, "plan of a replay")
        page.get_by_role("link", name="Look at the plan and start it").click()
        page.wait_for_url("**/replays/*-*-*-*-*")
        page.get_by_role("button", name="Start").click()
        self.toast(page, "Started")
        # It was planned, and looked at every 15 s.
        page.wait_for_function(
            "() => document.getElementById('main').dataset.refresh === '2' || document.querySelector('.badge.good')",
            timeout=12_000,
        )
        page.locator(".badge", has_text="finished").wait_for()

    def reveal(self, page):
        page.goto(self.url + "/messages?category=com.example.live")
        page.locator("#message-rows a.mono").first.click()
        page.wait_for_url("**/messages/*-*-*-*-*")
        page.get_by_role("button", name="Reveal").click()
        page.locator("code.token").wait_for()
        token = page.locator("code.token").inner_text()
        assert len(token) > 10, f"no token is shown: {token!r}"
        page.reload()
        assert token not in page.content(), "a page holds the token"
        page.goto(self.url + "/audit")
        page.locator("tbody tr", has_text="reveal").first.wait_for()

    def audit(self, page):
        page.goto(self.url + "/audit?action=handlers.pause")
        row = page.locator("tbody tr", has_text="maintenance <script>").first
        row.wait_for()
        assert "kim" in row.inner_text(), "the audit trail does not say who"

    def viewer(self, page):
        page.context.clear_cookies()
        page.context.add_cookies(self.session("viewer"))
        for path in ("/handlers", "/dead", "/deliveries", self.given["pages"]["conflict"], self.given["pages"]["message"]):
            page.goto(self.url + path)
            for name in ("Reveal", "Pause", "Resume", "Retry", "Discard", "Release"):
                assert page.get_by_role("button", name=name).count() == 0, f"{path} offers {name} to a viewer"
        response = page.goto(self.url + "/audit")
        assert response.status == 403, f"a viewer reads the audit trail: {response.status}"

    def sign_out(self, page):
        page.context.clear_cookies()
        del self.cookies["viewer"]
        page.context.add_cookies(self.session("viewer"))
        page.goto(self.url + "/")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in*")
        page.goto(self.url + "/messages")
        assert "/sign-in" in page.url, "signing out ends no session"
