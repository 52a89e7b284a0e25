// The search box: a slash leads to it, and its terms are completed. And views, which are searches with a name.
import { element } from "./shell.js";

const box = document.getElementById("find");
let names;

/** Names that the overview knows. */
async function load() {
    names = [];
    const answer = await fetch("/api/v1/overview");
    if (!answer.ok) return;
    const { categories = [], handlers = [], streams = [] } = await answer.json();
    const quoted = (text) => (/[\s"\\]/.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : text);
    const terms = (name, list, member) => list.map((one) => `${name}:${quoted(one[member] ?? one)}`);
    names = [...new Set([
        ...terms("category", categories, "name"), ...terms("sender", streams, "sender"),
        ...terms("handler", handlers, "handler"), "since:", "until:", "device:", "message_id:",
    ])];
    complete();
}

/** Completes the last term, which may have spaces within quotation marks. */
function complete() {
    const [before] = box.value.match(/^(?:(?:[^\s"]|"(?:[^"\\]|\\.)*")*\s)*/);
    document.getElementById("find-terms").replaceChildren(...(names ?? []).map((name) => new Option("", before + name)));
}

/** Offers the views of a list that this browser keeps. */
export function startViews() {
    const place = document.querySelector(".filter[role=search] .actions");
    if (!place) return;
    const { pathname, search } = location;
    const views = JSON.parse(localStorage.getItem(pathname) ?? "{}");
    for (const [name, address] of Object.entries(views)) {
        const link = element("a", "button ghost", name);
        link.href = pathname + address;
        place.append(link);
    }
    if (!search) return;
    const kept = Object.keys(views).find((name) => views[name] === search);
    const button = element("button", "ghost", kept ? `Forget ${kept}` : "Save view");
    button.addEventListener("click", () => {
        const name = kept ?? prompt("Name of this view");
        if (kept) delete views[name];
        else if (name) views[name] = search;
        localStorage.setItem(pathname, JSON.stringify(views));
        location.reload();
    });
    place.append(button);
}

export function startFind() {
    if (!box) return;
    box.addEventListener("focus", () => { if (!names) load().catch(() => {}); });
    box.addEventListener("input", complete);
    document.addEventListener("keydown", (event) => {
        const isWriting = event.target.closest("input, select, textarea, dialog, [contenteditable]");
        if (event.key !== "/" || isWriting || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        box.focus();
        box.select();
    });
}
