// Fetches the page again and brings its live parts up to date: only the server decides how things look.
import { clockTime, isFresh, isStale } from "./stale.js";
import { showLocalTimes } from "./times.js";

/** The longest pause between two attempts, and how long an answer may take before that is said and before it is given up. */
const [longestPause, patience, limit] = [30_000, 3_000, 30_000];

let timer;
let failures = 0;
/** When what is shown was asked for. */
let shown = Date.now();
/** What is asked now; a newer question breaks it off. */
let question;

/** What names a node among its siblings in another version of the page; empty for one that only its place names. */
function key(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    const link = node.localName === "tr" || node.localName === "li" ? node.querySelector("a[href]") : null;
    return node.id || node.dataset.dialog || (link?.getAttribute("href") ?? "");
}

/** Makes a node equal to its newer version, and leaves alone what is equal: focus, selection and scrolling stay. */
function update(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
        old.nodeValue = fresh.nodeValue;
        return;
    }
    // A request is under way.
    if (old.dataset.key) return;
    for (const name of old.getAttributeNames()) {
        if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
        if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
        let same = at;
        while (same && (same.nodeName !== next.nodeName || key(same) !== key(next))) same = same.nextSibling;
        if (!same) {
            old.insertBefore(next, at);
            continue;
        }
        while (at !== same) {
            const gone = at;
            at = at.nextSibling;
            gone.remove();
        }
        update(same, next);
        at = same.nextSibling;
    }
    while (at) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
    }
}

function take(page) {
    const main = document.getElementById("main");
    const fresh = page.getElementById("main");
    showLocalTimes(page);
    const focused = document.activeElement;
    for (const old of document.querySelectorAll("[data-live]")) {
        const part = page.getElementById(old.id);
        if (part && !old.querySelector("dialog[open]")) update(old, part);
    }
    // Its element is gone: the focus moves to the start of the content.
    if (focused && !focused.isConnected) main.focus({ preventScroll: true });
    for (const name of ["at", "refresh"]) {
        if (fresh?.dataset[name]) main.dataset[name] = fresh.dataset[name];
    }
}

function fail(why) {
    isStale("page", shown, clockTime(document.getElementById("main").dataset.at ?? shown), why, () => refresh().catch(() => {}));
}

async function ask(signal) {
    const start = Date.now();
    const slow = setTimeout(() => fail("no answer yet."), patience);
    let [response, text] = [];
    try {
        response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store", signal });
        text = await response.text();
    } catch {
        throw new Error("the console can’t be reached.");
    } finally {
        clearTimeout(slow);
    }
    // Signed out meanwhile: the server redirects to the sign-in page.
    if (response.redirected) return location.reload();
    const page = new DOMParser().parseFromString(text, "text/html");
    if (!response.ok) {
        const title = page.querySelector("h1")?.textContent;
        throw new Error(title ? `${title[0].toLowerCase()}${title.slice(1)}.` : `the console answered ${response.status}.`);
    }
    shown = start;
    take(page);
}

/** Brings each part marked `data-live` up to date; says so where that fails, and tries again later and later. */
export async function refresh() {
    question?.abort();
    const mine = question = new AbortController();
    const end = setTimeout(() => mine.abort(), limit);
    try {
        await ask(mine.signal);
        failures = 0;
        isFresh("page");
    } catch (error) {
        if (question !== mine) return;
        failures += 1;
        fail(error.message);
        throw error;
    } finally {
        clearTimeout(end);
        if (question === mine) schedule();
    }
}

/** Waits for the page's interval, which may have changed, and longer after each failure. */
function schedule() {
    clearTimeout(timer);
    const seconds = Number(document.getElementById("main")?.dataset.refresh);
    if (!seconds && !failures) return;
    const pause = Math.min((seconds || 5) * 1000 * 2 ** Math.max(0, failures - 1), longestPause);
    timer = setTimeout(() => { if (!document.hidden) refresh().catch(() => {}); }, pause);
}

/** Refreshes at the page's interval while it is visible, and at once when it becomes visible. */
export function startLive() {
    if (!document.getElementById("main")?.dataset.refresh) return;
    const wake = () => { if (!document.hidden) refresh().catch(() => {}); };
    document.addEventListener("visibilitychange", wake);
    addEventListener("pageshow", (event) => { if (event.persisted) wake(); });
    schedule();
}
