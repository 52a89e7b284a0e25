// Refetches the page and replaces its live parts: only the server decides how things look.
import { showLocalTimes } from "./times.js";

let timer;

/** A selector for the focused element in a newer version of its part; null if there is none. */
function focusKey(element) {
    if (element.id) return `#${CSS.escape(element.id)}`;
    if (element.dataset.dialog) return `[data-dialog="${CSS.escape(element.dataset.dialog)}"]`;
    const href = element.getAttribute("href");
    return href ? `a[href="${CSS.escape(href)}"]` : null;
}

function replace(old, fresh, isForced) {
    if (old.querySelector("dialog[open]")) return;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const isTyping = focused?.matches("input, select, textarea");
    const key = focused && focusKey(focused);
    if (focused && (isTyping || !key) && !isForced) return;
    old.replaceChildren(...fresh.childNodes);
    showLocalTimes(old);
    // Keeps the focus; if its element is gone, moves it to the start of the content.
    if (focused) ((key && old.querySelector(key)) ?? document.getElementById("main")).focus({ preventScroll: true });
}

/** Replaces each part marked `data-live` by its newer version, except, unless forced, a part in use. */
export async function refresh(isForced = false) {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    // Signed out meanwhile: the server redirects to the sign-in page.
    if (response.redirected) return location.reload();
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(old.id);
        if (fresh) replace(old, fresh, isForced);
    }
}

/** Refreshes at the page's interval while the page is visible. */
export function startLive() {
    const seconds = Number(document.querySelector("main")?.dataset.refresh);
    if (!seconds) return;
    const next = () => {
        clearTimeout(timer);
        timer = setTimeout(async () => {
            if (!document.hidden) await refresh().catch(() => {});
            next();
        }, seconds * 1000);
    };
    next();
}
