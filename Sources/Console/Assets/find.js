// The search box: a slash leads to it, and its terms are completed.

const box = document.getElementById("find");
let names;

/** Names that the overview knows. */
async function load() {
    names = [];
    const answer = await fetch("/api/v1/overview", { headers: { Accept: "application/json" } });
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
