"""Drives a real browser (Debian's chromium) through every page and action of a running console.

usage: console_browser.py FOLDER [STEP…] < JSON
The JSON has: url, tokens {viewer, operator}, hostile (texts that pages must show as text), keys {...}.
Screenshots go to FOLDER. Prints one line for each problem; exit code 0 means none.
"""

import json
import os
import re
import sys
import time

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import TimeoutError as Timeout
from playwright.sync_api import sync_playwright

WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
    window.__violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
# What strangers wrote must have become text: no script, no picture, no handler of theirs, and nothing that turns text.
FOREIGN = r"""
() => {
    const found = [];
    if (window.__ran) found.push("a script of the corpus ran");
    for (const element of document.querySelectorAll("*")) {
        if (element.localName === "script" && !element.src) found.push("an inline script");
        if (["img", "iframe", "object", "style", "base"].includes(element.localName)) found.push(element.localName);
        for (const attribute of element.attributes) {
            if (attribute.name.startsWith("on") || attribute.name === "style") found.push(attribute.name);
            if (/^(href|src|action)$/.test(attribute.name) && /^\s*(javascript|data|\/\/)/i.test(attribute.value))
                found.push(attribute.value);
        }
    }
    const turning = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200B-\u200F\u202A-\u202E\u2060-\u2069\uFEFF]/;
    const text = document.body.innerText.match(turning);
    if (text) found.push("U+" + text[0].codePointAt(0).toString(16) + " in the text");
    return found;
}
"""


class Run:
    def __init__(self, browser, given, folder):
        self.browser, self.given, self.folder = browser, given, folder
        self.url = given["url"]
        self.problems = []
        self.cookies = {}
        self.axe = Axe()
        self.counts = {"pages": 0, "axe": 0, "actions": 0}

    def problem(self, where, what):
        self.problems.append(f"{where}: {what}")

    def context(self, role=None, theme="light", width=1440, scripts=True):
        context = self.browser.new_context(
            viewport={"width": width, "height": 900 if width > 500 else 740},
            color_scheme=theme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
            timezone_id="Asia/Tokyo",
            locale="en-GB",
        )
        context.set_default_timeout(15_000)
        context.add_init_script(WATCH)
        if role:
            context.add_cookies(self.session(role))
        return context

    def page(self, context, where):
        page = context.new_page()
        page.on("pageerror", lambda error: self.problem(where, f"script error: {error}"))
        page.on("dialog", lambda dialog: (self.problem(where, "a dialog opened"), dialog.dismiss()))

        def message(entry):
            # A refused action is answered 4xx, which the browser reports as well.
            if entry.type in ("error", "warning") and "status of 4" not in entry.text:
                self.problem(where, f"console: {entry.text}")

        page.on("console", message)
        return page

    # Signing in

    def session(self, role):
        if role not in self.cookies:
            context = self.context()
            page = self.page(context, f"sign-in of {role}")
            page.goto(self.url + "/messages")
            if not page.url.startswith(self.url + "/sign-in"):
                self.problem("sign-in", f"/messages without a session leads to {page.url}")
            self.check(page, "sign-in")
            page.get_by_label("Token").fill("FAKE-wrong-token-of-nobody-in-particular")
            page.get_by_role("button", name="Sign in").click()
            page.locator("#problem").wait_for()
            page.get_by_label("Token").fill(self.given["tokens"][role])
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(self.url + "/messages")
            self.cookies[role] = context.cookies()
            if any(not cookie["httpOnly"] or cookie["sameSite"] != "Strict" for cookie in self.cookies[role]):
                self.problem("sign-in", "the session cookie is not HttpOnly and SameSite=Strict")
            context.close()
        return self.cookies[role]

    # Every page

    def check(self, page, where, axe=True):
        width = page.viewport_size["width"]
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            culprit = page.evaluate(
                """(width) => Array.from(document.querySelectorAll("body *"))
                    .filter((element) => element.getBoundingClientRect().right > width + 1 && !element.closest(".table, pre, dialog"))
                    .slice(0, 3).map((element) => element.outerHTML.slice(0, 120)).join(" | ")""",
                width,
            )
            self.problem(where, f"scrolls sideways: {wide} > {width}: {culprit}")
        for violation in page.evaluate("window.__violations"):
            self.problem(where, f"content security policy: {violation}")
        for foreign in page.evaluate(FOREIGN):
            self.problem(where, foreign)
        if not axe:
            return
        self.counts["axe"] += 1
        for violation in self.axe.run(page).response["violations"]:
            nodes = "; ".join(node["html"][:160] for node in violation["nodes"][:3])
            self.problem(where, f"axe {violation['id']}: {violation['help']}: {nodes}")

    def every_page(self):
        for theme, width in (("light", 1440), ("dark", 360), ("dark", 1440), ("light", 360)):
            context = self.context("operator", theme, width)
            page = self.page(context, "page")
            for name, path in self.given["pages"].items():
                where = f"{name}, {theme}, {width} px"
                response = page.goto(self.url + path)
                self.counts["pages"] += 1
                if response.status != 200:
                    self.problem(where, f"status {response.status}")
                # The other two combinations have nothing that these don't have; thousands of nodes alike are looked at once.
                axe = (theme, width) == ("light", 1440) or (theme, width) == ("dark", 360) and name != "message-wide"
                self.check(page, where, axe)
                if (theme, width) in (("light", 1440), ("dark", 360)):
                    page.screenshot(path=f"{self.folder}/{name}-{theme}-{width}.png")
            context.close()

    def hostile_texts(self):
        context = self.context("operator")
        page = self.page(context, "hostile texts")
        for path, texts in self.given["hostile"].items():
            page.goto(self.url + path)
            shown = page.locator("body").inner_text()
            for text in texts:
                if text not in shown:
                    self.problem(path, f"does not show {text!r} as text")
        context.close()

    def without_scripts(self):
        context = self.context("operator", scripts=False)
        page = context.new_page()
        for name, path in self.given["pages"].items():
            response = page.goto(self.url + path)
            if response.status != 200 or not page.locator("main h1").first.is_visible():
                self.problem(name, "can't be read without scripts")
            if not page.locator("#nav").get_by_role("link", name="Messages").is_visible():
                self.problem(name, "has no navigation without scripts")
            if page.locator(".needs-script:visible").count():
                self.problem(name, "shows buttons that need scripts")
        context.close()

    # Keyboard

    def keyboard(self):
        context = self.context("operator")
        page = self.page(context, "keyboard")
        for path in ("/", "/messages", "/dead", "/handlers"):
            page.goto(self.url + path)
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className") != "skip":
                self.problem(path, "the first Tab does not reach the skip link")
            page.keyboard.press("Enter")
            if page.evaluate("document.activeElement.id") != "main":
                self.problem(path, "the skip link does not lead to the content")
            seen = 0
            for _ in range(40):
                page.keyboard.press("Tab")
                outline = page.evaluate(
                    "(() => { const e = document.activeElement; return e === document.body ? null : "
                    "getComputedStyle(e).outlineStyle; })()"
                )
                if outline is None:
                    break
                seen += 1
                if outline == "none":
                    self.problem(path, "focus is not seen: " + page.evaluate("document.activeElement.outerHTML.slice(0, 100)"))
            if seen < 3:
                self.problem(path, "the keyboard reaches nothing")
        page.goto(self.url + "/handlers")
        page.get_by_role("button", name="Pause").first.focus()
        page.keyboard.press("Enter")
        page.locator("dialog[open]").wait_for()
        page.keyboard.press("Escape")
        if page.evaluate("document.activeElement.textContent.trim()") != "Pause":
            self.problem("dialog", "Escape does not give the focus back")
        context.close()

    # Actions

    def act(self, name, step):
        context = self.context("operator")
        page = self.page(context, name)
        try:
            step(page)
            self.counts["actions"] += 1
            self.check(page, name)
        except (Timeout, AssertionError) as error:
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
        self.act("viewer", self.viewer)
        self.act("sign out", self.sign_out)

    def actions(self):
        self.act("pause and resume", self.pause)
        self.act("dialog with a refusal", self.refusal)
        self.act("dead letters: retry", lambda page: self.dead(page, "Retry", "Queued again"))
        self.act("dead letters: discard", lambda page: self.dead(page, "Discard", "Discarded"))
        self.act("retry now", self.retry_now)
        self.act("release a conflict", self.release)
        self.act("replay", self.replay)
        self.act("audit trail", self.audit)

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

    def filter(self, page):
        page.goto(self.url + "/messages")
        page.get_by_label("Category").fill("com.example.live")
        page.get_by_label("Received since").fill("1h")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**category=com.example.live*since=1h*")
        assert page.get_by_label("Received since").input_value() == "1h", "the form forgets"
        page.get_by_role("link", name="Next page").click()
        page.wait_for_url("**cursor=*")
        page.get_by_role("link", name="First page").click()
        page.locator("#message-rows a.mono").first.click()
        page.wait_for_url("**/messages/*-*-*-*-*")

    def pause(self, page):
        page.goto(self.url + "/handlers")
        card = page.locator("section.card", has=page.get_by_role("heading", name="orders"))
        card.get_by_role("button", name="Pause").click()
        self.confirm(page, "Pause", "maintenance <script>window.__ran=1</script>")
        self.toast(page, "Paused orders")
        card.get_by_text("maintenance <script>window.__ran=1</script>").wait_for()
        card.get_by_role("button", name="Resume").click()
        self.toast(page, "Resumed orders")

    def refusal(self, page):
        page.goto(self.url + "/handlers")
        page.get_by_role("button", name="Pause").first.click()
        page.evaluate("document.querySelector('dialog[open] form').dataset.action = '/api/v1/handlers/none/pause'")
        dialog = self.confirm(page, "Pause", "a handler that is not there")
        dialog.locator(".notice.bad", has_text="no handler").wait_for()

    def dead(self, page, label, done):
        page.goto(self.url + "/dead")
        page.get_by_role("button", name=label).first.click()
        dialog = self.confirm(page, label, "the provider is back")
        dialog.get_by_text("This touches").wait_for()
        page.screenshot(path=f"{self.folder}/dead-{label.lower()}-dialog.png")
        self.check(page, f"dialog of {label}")
        dialog.get_by_role("button", name=re.compile(f"{label} [0-9]")).click()
        self.toast(page, done)

    def retry_now(self, page):
        page.goto(self.url + "/deliveries?handler=orders")
        page.get_by_role("button", name="Retry now").first.click()
        self.toast(page, "Due now")
        page.goto(self.url + "/deliveries?handler=billing")
        page.get_by_role("button", name="Retry all now").click()
        self.confirm(page, "Retry all now", "the provider is back")
        self.toast(page, "Due now")

    def release(self, page):
        page.goto(self.url + self.given["pages"]["conflict"])
        assert page.locator(".diff .gone").count() > 0, "no difference is shown"
        page.get_by_role("button", name="Release").click()
        self.confirm(page, "Release", "the second copy is right")
        self.toast(page, "Released")
        page.reload()
        page.get_by_text("handlers know it as").wait_for()

    def replay(self, page):
        page.goto(self.url + "/messages?category=com.example.orders")
        page.get_by_role("link", name="Replay these").click()
        page.get_by_label("Send").select_option("all")
        page.get_by_label("To", exact=True).select_option("orders")
        page.get_by_role("button", name="Plan it").click()
        page.get_by_text("The filter selects").wait_for()
        self.check(page, "plan of a replay")
        page.get_by_role("link", name="Look at the plan and start it").click()
        page.wait_for_url("**/replays/*-*-*-*-*")
        page.get_by_role("button", name="Start").click()
        self.toast(page, "Started")
        page.locator(".badge", has_text="finished").wait_for(timeout=30_000)

    def audit(self, page):
        page.goto(self.url + "/audit?action=handlers.pause")
        row = page.locator("tbody tr", has_text="maintenance <script>").first
        row.wait_for()
        assert "operator" in row.inner_text(), "the audit trail does not say who"

    def viewer(self, page):
        page.context.clear_cookies()
        page.context.add_cookies(self.session("viewer"))
        for path in ("/handlers", "/dead", "/deliveries", self.given["pages"]["conflict"]):
            page.goto(self.url + path)
            for name in ("Pause", "Resume", "Retry", "Discard", "Release"):
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


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    given = json.load(sys.stdin)
    begin = time.monotonic()
    with sync_playwright() as playwright:
        # Chromium's sandbox needs a user of its own.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        run = Run(browser, given, folder)
        steps = [run.every_page, run.hostile_texts, run.without_scripts, run.keyboard, run.looking, run.actions]
        if len(sys.argv) > 2:
            steps = [step for step in steps if step.__name__ in sys.argv[2:]]
        for step in steps:
            step_begin = time.monotonic()
            try:
                step()
            except Exception as error:
                run.problem(step.__name__, f"{type(error).__name__}: {error}")
            print(f"# {step.__name__}: {time.monotonic() - step_begin:.1f} s", flush=True)
        browser.close()
    print(f"# {run.counts}, {time.monotonic() - begin:.0f} s")
    for problem in run.problems:
        print(problem)
    sys.exit(1 if run.problems else 0)


main()
