// The live tail: new messages on top of the list, as they commit.
import { element, toast } from "./shell.js";
import { clockTime, isFresh, isStale } from "./stale.js";
import { showLocalTimes } from "./times.js";

const limit = 200;

/** A position comes every 5 s: after this silence, in milliseconds, nobody follows the database any more. */
const silence = 12_000;

/** A stream ends now and then, and is opened again after 2 s: only after this time, in milliseconds, is it lost. */
const patience = 4_000;

/** How long a tail without a stream of its own waits before it asks again, in milliseconds. */
const pause = 3_000;

/** Invisible characters, and those that change the direction of text: shown by number, as the server does. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u;

/** Untrusted text: isolated, with marks for invisible characters. */
export function stranger(text) {
    const box = element("bdi");
    let run = "";
    for (const character of text) {
        if (!unseen.test(character)) {
            run += character;
            continue;
        }
        const names = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
        const name = names[character] ?? `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
        box.append(run, element("span", "mark", name));
        run = "";
    }
    box.append(run);
    return box;
}

/** A member of a JSON object as it stands in the object's text, so that numbers keep every digit; undefined if there is none. */
export function verbatim(text, member) {
    const token = /"(?:[^"\\]+|\\.)*"|[{}[\]:,]/g;
    let [depth, start, last] = [0, -1, ""];
    for (let found = token.exec(text); found; found = token.exec(text)) {
        const [word] = found;
        if (depth === 1 && start >= 0 && (word === "," || word === "}")) return text.slice(start, found.index).trim();
        if (depth === 1 && start < 0 && word === ":" && last === `"${member}"`) start = token.lastIndex;
        if (word === "{" || word === "[") depth += 1;
        else if (word === "}" || word === "]") depth -= 1;
        last = word;
    }
    return undefined;
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
        return [time];
    },
    category: (message) => [element("span", "tag", stranger(message.category))],
    message_id: (message) => [
        link("mono", `/messages/${message.message_key}`, "", stranger(cut(message.message_id, 120))),
    ],
    device_key: (message) => [
        link("key", `/messages?device=${message.device_key}`, message.device_key, message.device_key.slice(0, 8)),
    ],
    data(message) {
        const text = message.data_raw ?? message.data;
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
    const keyOf = (shown) => shown.querySelector("a[href^='/messages/']")?.getAttribute("href").slice(10);
    const known = new Set(Array.from(body.rows, keyOf));
    const table = body.closest(".table");
    const note = element("button", "new");
    note.hidden = true;
    table.before(note);
    let events;
    let waiting = [];
    let heard = Date.now();
    let failures = 0;
    let timer;
    let lost;
    let draw;
    /** Ends this tail's right to a stream that stays open. */
    let release;

    /** Whether somebody reads or selects what new rows would push away. */
    const isHeld = () => table.matches(":hover") || table.getBoundingClientRect().top < 0
        || (!getSelection().isCollapsed && body.contains(getSelection().anchorNode));

    /** What waits and is not shown, once each: a stream that is opened again may repeat some. */
    const unshown = () => [...new Map(waiting.map((message) => [message.message_key, message])).values()]
        .filter((message) => !known.has(message.message_key));

    const show = () => {
        note.hidden = true;
        const fresh = unshown().slice(-limit);
        waiting = [];
        if (!fresh.length) return;
        for (const message of fresh) known.add(message.message_key);
        const rows = fresh.reverse().map((message) => row(message, columns));
        body.prepend(...rows);
        for (const made of rows) showLocalTimes(made);
        while (body.rows.length > limit) {
            known.delete(keyOf(body.rows[limit]));
            body.deleteRow(limit);
        }
        document.getElementById("tail-empty")?.remove();
    };
    const offer = () => {
        draw = undefined;
        if (!waiting.length) return;
        if (!isHeld()) return show();
        const count = unshown().length;
        note.hidden = !count;
        note.textContent = count < limit ? `${count} new` : `${limit} or more new`;
    };
    note.addEventListener("click", () => {
        show();
        table.scrollIntoView({ block: "nearest" });
    });
    for (const name of ["pointerleave", "pointerenter"]) table.addEventListener(name, () => requestAnimationFrame(offer));
    addEventListener("scroll", () => requestAnimationFrame(offer), { passive: true });

    const listen = () => {
        [heard, failures] = [Date.now(), 0];
        lost = clearTimeout(lost);
        button.textContent = "Tail is live";
        isFresh("tail");
    };
    const lose = (why) => {
        button.textContent = "Tail is interrupted";
        isStale("tail", heard, clockTime(heard), why, open);
    };
    const close = () => {
        clearTimeout(timer);
        lost = clearTimeout(lost);
        events?.close();
        events = undefined;
        release = release?.();
    };
    /** A browser allows six connections to a host: one tail keeps its own, and the others ask now and then. */
    const claim = () => navigator.locks?.request("tail", { ifAvailable: true }, (lock) => {
        if (lock && events && !release) return new Promise((end) => { release = end; });
    });
    /** Follows on; after a pause from the latest messages there are, which is as much as the list holds. */
    const open = (isFirst = false) => {
        close();
        const address = new URL(button.dataset.stream, location.href);
        if (!isFirst) address.searchParams.set("limit", limit);
        events = new EventSource(address);
        claim();
        events.onopen = listen;
        events.onmessage = (event) => {
            listen();
            draw ??= requestAnimationFrame(offer);
            waiting.push({ ...JSON.parse(event.data), data: verbatim(event.data, "data") });
            // A hidden page draws nothing, so the queue must be bounded here.
            if (waiting.length > 2 * limit) waiting = waiting.slice(-limit);
        };
        events.addEventListener("position", () => {
            listen();
            if (release) return;
            close();
            timer = setTimeout(open, pause);
        });
        events.addEventListener("stale", (event) => lose(JSON.parse(event.data).detail));
        events.addEventListener("gap", (event) => {
            const { from, to, reason } = JSON.parse(event.data);
            toast(`Messages received from ${from} to ${to} may be missing here: ${reason}. Search for them by time.`, "bad");
        });
        events.onerror = () => {
            if (events?.readyState !== EventSource.CLOSED) {
                lost ??= setTimeout(() => lose("the console can’t be reached."), patience);
                return;
            }
            lose("the console can’t read the database, or has too many streams.");
            // Signed out meanwhile: the server redirects to the sign-in page.
            fetch("/api/v1/whoami").then((answer) => { if (answer.status === 401) location.reload(); }, () => {});
            failures += 1;
            timer = setTimeout(open, Math.min(1000 * 2 ** failures, 30_000));
        };
    };
    const stop = () => {
        close();
        isFresh("tail");
        button.ariaPressed = "false";
        button.textContent = "Live tail";
    };
    setInterval(() => {
        if (events?.readyState === EventSource.OPEN && Date.now() - heard > silence) lose("the database is not followed.");
    }, 1000);
    button.addEventListener("click", () => {
        if (button.ariaPressed === "true") return stop();
        button.ariaPressed = "true";
        listen();
        open(true);
    });
    document.addEventListener("visibilitychange", () => {
        if (button.ariaPressed !== "true") return;
        if (document.hidden) close();
        else open();
    });
    addEventListener("pagehide", stop);
}
