// Fetches the page again and takes over its live parts: the server alone decides how things look.
import { showLocalTimes } from "./times.js";

let timer;

/** Replaces each part marked `data-live` by its newer self; parts where somebody works stay. */
export async function refresh() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(old.id);
        if (!fresh || old.contains(document.activeElement) || old.querySelector("dialog[open]")) continue;
        if (old.innerHTML === fresh.innerHTML) continue;
        old.replaceChildren(...fresh.childNodes);
        showLocalTimes(old);
    }
}

/** Refreshes as often as the page asks for, while it is seen. */
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
