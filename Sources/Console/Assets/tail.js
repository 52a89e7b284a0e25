// The live tail: new messages on top of the list, as they commit.
import { toast } from "./shell.js";
import { showLocalTimes } from "./times.js";

const limit = 200;

/** Invisible characters, and those that change the direction of text: shown by number, as the server does. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u;

/** Untrusted text: isolated, with marks for invisible characters. */
export function stranger(text) {
    const box = document.createElement("bdi");
    let run = "";
    for (const character of text) {
        if (!unseen.test(character)) {
            run += character;
            continue;
        }
        const mark = document.createElement("span");
        mark.className = "mark";
        const names = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
        mark.textContent = names[character]
            ?? `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
        box.append(run, mark);
        run = "";
    }
    box.append(run);
    return box;
}

function element(name, className, ...content) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...content);
    return made;
}

function link(className, href, title, content) {
    const made = element("a", className, content);
    made.href = href;
    if (title) made.title = title;
    return made;
}

const cut = (text, length) => (text.length > length ? `${text.slice(0, length)}…` : text);

/** The cells of a row, by field; others are text. */
const cells = {
    received_at(message) {
        const time = element("time", "", `${message.received_at.slice(0, 19).replace("T", " ")}Z`);
        time.dateTime = message.received_at;
        const age = element("time", "age", "now");
        age.dateTime = message.received_at;
        age.title = time.textContent;
        return [time, element("span", "sub", age)];
    },
    category: (message) => [element("span", "tag", stranger(message.category))],
    message_id: (message) => [
        link("mono", `/messages/${message.message_key}`, "", stranger(cut(message.message_id, 120))),
    ],
    device_key: (message) => [
        link("key", `/messages?device=${message.device_key}`, message.device_key, message.device_key.slice(0, 8)),
    ],
    data(message) {
        const text = message.data_raw ?? (message.data === undefined ? undefined : JSON.stringify(message.data));
        if (text === undefined) return [element("span", "muted", "none")];
        return [element("code", "clip", stranger(cut(text, 160)))];
    },
};

const plain = (message, field) => (field in message ? [element("span", "mono", stranger(String(message[field])))] : []);

function row(message, columns) {
    const made = element("tr", "fresh");
    made.dataset.key = message.message_key;
    for (const column of columns) {
        const cell = element("td", "", ...(cells[column.field] ?? plain)(message, column.field));
        cell.dataset.label = column.label;
        made.append(cell);
    }
    return made;
}

/** Makes the button switch the tail on and off. */
export function startTail() {
    const button = document.getElementById("tail-toggle");
    const body = document.getElementById("message-rows");
    if (!button || !body) return;
    const columns = Array.from(body.closest("table").tHead.rows[0].cells, (cell) => ({
        field: cell.dataset.field,
        label: cell.textContent,
    }));
    const known = new Set(
        Array.from(body.querySelectorAll("a[href^='/messages/']"), (anchor) => anchor.getAttribute("href").slice(10)),
    );
    let events;
    let waiting = [];

    const show = () => {
        const fresh = waiting.filter((message) => !known.has(message.message_key)).slice(-limit);
        waiting = [];
        if (!fresh.length) return;
        for (const message of fresh) known.add(message.message_key);
        const rows = fresh.reverse().map((message) => row(message, columns));
        body.prepend(...rows);
        for (const made of rows) showLocalTimes(made);
        while (body.rows.length > limit) {
            const anchor = body.rows[body.rows.length - 1].querySelector("a[href^='/messages/']");
            if (anchor) known.delete(anchor.getAttribute("href").slice(10));
            body.deleteRow(-1);
        }
        document.getElementById("tail-empty")?.remove();
    };

    const stop = () => {
        events?.close();
        events = undefined;
        button.setAttribute("aria-pressed", "false");
        button.textContent = "Live tail";
    };
    const start = () => {
        events = new EventSource(button.dataset.stream);
        button.setAttribute("aria-pressed", "true");
        button.textContent = "Tail is live";
        events.onmessage = (event) => {
            if (!waiting.length) requestAnimationFrame(show);
            waiting.push(JSON.parse(event.data));
            // A hidden page draws nothing, so the queue must be bounded here.
            if (waiting.length > 2 * limit) waiting = waiting.slice(-limit);
        };
        events.addEventListener("gap", (event) => {
            const { from, to, reason } = JSON.parse(event.data);
            toast(`Messages received from ${from} to ${to} may be missing here: ${reason}. Search for them by time.`, "bad");
        });
        events.onerror = () => {
            if (events?.readyState === EventSource.CLOSED) stop();
        };
    };
    button.addEventListener("click", () => (events ? stop() : start()));
    addEventListener("pagehide", stop);
}
