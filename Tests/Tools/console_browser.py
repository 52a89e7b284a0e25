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
from console_actions import Actions
from console_tasks import Tasks
from console_truths import Truths
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


class Run(Actions, Tasks, Truths):
    def __init__(self, browser, given, folder):
        self.browser, self.given, self.folder = browser, given, folder
        self.url = given["url"]
        self.problems = []
        self.cookies = {}
        # What the browser's console says of faults that are made on purpose.
        self.faults = None
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
        context.set_default_timeout(60_000)
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
            if self.faults and re.search(self.faults, entry.text):
                return
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

    def check(self, page, where, axe="all"):
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
        # What a theme and a width can change; the rest was looked at in the other one, and takes most of the time.
        options = {"resultTypes": ["violations"]}
        if axe == "theme":
            options["runOnly"] = ["color-contrast", "scrollable-region-focusable", "aria-hidden-focus", "link-in-text-block"]
        for violation in self.axe.run(page, options=options).response["violations"]:
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
                isSecond = (theme, width) == ("dark", 360) and name != "message-wide"
                self.check(page, where, "all" if (theme, width) == ("light", 1440) else "theme" if isSecond else None)
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
        page.goto(self.url + "/handlers/orders")
        page.get_by_role("button", name="Pause").first.focus()
        page.keyboard.press("Enter")
        page.locator("dialog[open]").wait_for()
        page.keyboard.press("Escape")
        if page.evaluate("document.activeElement.textContent.trim()") != "Pause":
            self.problem("dialog", "Escape does not give the focus back")
        context.close()


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
        steps = [run.every_page, run.hostile_texts, run.without_scripts, run.keyboard, run.looking, run.truths, run.actions]
        # Over rows of their own.
        if len(sys.argv) > 2:
            steps = [step for step in [*steps, run.tasks] if step.__name__ in sys.argv[2:]]
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
