// Made by scripts/embed-assets from Sources/Console/Assets. Do not edit.
// swift-format-ignore-file

extension PageAssets {
    /// The files of `Assets/`, by name.
    package static let files: [File] = [
        File(name: "actions.js", content: ####"""
// Buttons and dialogs that act: each request is JSON with an Idempotency-Key of its own, kept until it was answered.
import { refresh } from "./live.js";
import { toast } from "./shell.js";
import { stranger } from "./tail.js";

/** A key that no other request has; also where the page is not a secure context. */
function newKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What a failed request says, with the fix, as problem details (RFC 9457). */
async function problem(response) {
    const body = await response.json().catch(() => null);
    return body?.detail ? `${body.title}: ${body.detail}` : `The console answered ${response.status}.`;
}

/** Sends a request; throws an Error that is fit for people. */
export async function send(path, body, key = newKey()) {
    let response;
    try {
        response = await fetch(path, {
            method: "POST",
            credentials: "same-origin",
            headers: { "Content-Type": "application/json", "Idempotency-Key": key, Accept: "application/json" },
            body: JSON.stringify(body),
        });
    } catch {
        throw new Error("The console can't be reached; nothing is known to have been done. Try again.");
    }
    if (!response.ok) throw Object.assign(new Error(await problem(response)), { isAnswered: true });
    return response.json().catch(() => ({}));
}

/** The fields of a form as the API's JSON: empty ones are left out. */
export function fields(form) {
    const body = {};
    for (const field of form.elements) {
        if (!field.name || field.disabled || field.value === "") continue;
        if ((field.type === "radio" || field.type === "checkbox") && !field.checked) continue;
        const kind = field.dataset.kind;
        const value = kind === "number" ? Number(field.value) : kind === "flag" ? true : field.value;
        const names = field.name.split(".");
        const last = names.pop();
        const place = names.reduce((object, name) => (object[name] ??= {}), body);
        if (kind === "list") (place[last] ??= []).push(value);
        else place[last] = value;
    }
    return body;
}

const count = (number) => Number(number).toLocaleString("en");

function say(form, ...content) {
    form.querySelector(".outcome")?.replaceChildren(...content);
}

function line(text, className = "") {
    const paragraph = document.createElement("p");
    paragraph.className = className;
    paragraph.textContent = text;
    return paragraph;
}

/** What a frozen set holds, before anything is done to it. */
function summary(job) {
    const list = document.createElement("ul");
    for (const group of (job.groups ?? []).slice(0, 8)) {
        const item = document.createElement("li");
        item.append(`${count(group.count)} × `, stranger(group.handler), ": ", stranger(group.group));
        list.append(item);
    }
    return [line(`This touches ${count(job.planned)} dead letter${job.planned === 1 ? "" : "s"}, as of now:`), list];
}

function bar(job) {
    const box = document.createElement("div");
    box.className = "progress";
    const progress = document.createElement("progress");
    progress.max = Math.max(1, job.planned);
    progress.value = job.done + job.skipped;
    progress.setAttribute("aria-label", "Progress");
    const text = document.createElement("span");
    text.textContent = `${count(job.done)} of ${count(job.planned)} done`
        + (job.skipped ? `, ${count(job.skipped)} were gone` : "");
    box.append(progress, text);
    return box;
}

const ended = ["finished", "cancelled", "failed", "expired"];

/** Shows a job's progress until it has ended. */
function follow(job, form) {
    return new Promise((resolve) => {
        const events = new EventSource(`/api/v1/jobs/${job.id}/stream`);
        const take = (event) => {
            const now = JSON.parse(event.data);
            say(form, bar(now));
            if (!ended.includes(now.state)) return;
            events.close();
            resolve(now);
        };
        events.addEventListener("progress", take);
        events.addEventListener("end", take);
        events.onerror = () => {
            if (events.readyState === EventSource.CLOSED) resolve(job);
        };
    });
}

function finish(form, text) {
    const dialog = form.closest("dialog");
    dialog?.close();
    toast(text);
    refresh(true).catch(() => {});
}

/** First freezes what would be touched and shows it, then acts on that set. */
async function frozen(form, button, key) {
    if (!form.dataset.job) {
        const body = fields(form);
        delete body.reason;
        const job = await send(form.dataset.action, body, key);
        if (!job.id || !job.planned) return say(form, line("Nothing matches any more: nothing is left to do."));
        form.dataset.job = job.id;
        say(form, ...summary(job));
        button.textContent = `${form.querySelector("h2").textContent} ${count(job.planned)}`;
        return;
    }
    const reason = form.elements.reason?.value;
    const job = await send(form.dataset.action, { id: form.dataset.job, reason }, key);
    say(form, bar(job));
    const end = ended.includes(job.state) ? job : await follow(job, form);
    if (end.state === "failed") throw new Error(end.error ?? "The job failed.");
    finish(form, `${form.dataset.done}: ${count(end.done)}`);
}

/** Plans a replay, which sends nothing yet, and shows what it holds. */
async function plan(form, key) {
    const answer = await send(form.dataset.action, fields(form), key);
    const parts = [line(`The filter selects ${count(answer.selected)} messages; ${count(answer.planned)} deliveries would be sent.`)];
    if (answer.replayed_before) {
        parts.push(line(`${count(answer.replayed_before)} were sent by an earlier replay; “Replayed before” decides about them.`));
    }
    if (answer.handlers?.length) {
        const list = document.createElement("ul");
        for (const at of answer.handlers) {
            const item = document.createElement("li");
            item.textContent = `${at.handler}: ${count(at.planned)} to send; ${count(at.handled)} handled before, `
                + `${count(at.dead)} dead letters, ${count(at.pending)} wait anyway`;
            list.append(item);
        }
        parts.push(list);
    }
    if (!answer.id) return say(form, ...parts, line("There is nothing to send: widen the filter or the scope.", "muted"));
    const link = document.createElement("a");
    link.className = "button primary";
    link.href = `/replays/${encodeURIComponent(answer.id)}`;
    link.textContent = "Look at the plan and start it";
    say(form, ...parts, line("Nothing is sent until you start it.", "muted"), link);
    link.focus();
}

async function act(form) {
    const button = form.querySelector("button:not([type])");
    if (button.disabled) return;
    button.disabled = true;
    // The same key again where no answer came: what was done is not done twice.
    const key = (form.dataset.key ??= newKey());
    try {
        if (form.dataset.steps === "frozen") {
            await frozen(form, button, key);
        } else if (form.dataset.steps === "plan") {
            await plan(form, key);
        } else {
            const answer = await send(form.dataset.action, fields(form), key);
            const number = answer.done === undefined ? "" : `: ${count(answer.done)}`;
            finish(form, form.dataset.done + number);
        }
        delete form.dataset.key;
    } catch (error) {
        if (error.isAnswered) delete form.dataset.key;
        if (form.querySelector(".outcome")) say(form, line(error.message, "notice bad"));
        else toast(error.message, "bad");
    } finally {
        button.disabled = false;
    }
}

/** Shows a registration token in place of its button; the audit trail tells who saw it. */
async function reveal(button) {
    button.disabled = true;
    try {
        const response = await fetch(button.dataset.reveal, { headers: { Accept: "application/json" } });
        if (!response.ok) throw new Error(await problem(response));
        const token = document.createElement("code");
        token.className = "mono token";
        token.tabIndex = -1;
        token.textContent = (await response.json()).registration_token ?? "gone";
        button.parentElement.replaceChildren(token);
        token.focus();
    } catch (error) {
        button.disabled = false;
        toast(error.message, "bad");
    }
}

/** A dialog begins anew each time it is opened. */
function reset(dialog) {
    const form = dialog.querySelector("form");
    if (!form) return;
    delete form.dataset.job;
    delete form.dataset.key;
    form.reset();
    say(form);
    const button = form.querySelector("button:not([type])");
    if (button) button.textContent = form.querySelector("h2").textContent;
}

/** Listens for every form and button that acts, those that come later included. */
export function startActions() {
    document.addEventListener("submit", (event) => {
        const form = event.target;
        if (!form.dataset.action) return;
        event.preventDefault();
        act(form);
    });
    document.addEventListener("click", (event) => {
        const opener = event.target.closest("[data-dialog]");
        if (opener) {
            const dialog = document.getElementById(opener.dataset.dialog);
            reset(dialog);
            dialog.showModal();
            return;
        }
        const revealer = event.target.closest("[data-reveal]");
        if (revealer) {
            reveal(revealer);
            return;
        }
        if (event.target.closest("[data-close]")) event.target.closest("dialog")?.close();
    });
}
"""####),
        File(name: "console.css", content: ####"""
/* The console's style: one file, no framework. Colours keep a contrast of 4.5 to 1 for text in both themes. */

:root {
    color-scheme: light;
    --canvas: #f6f7f9;
    --surface: #ffffff;
    --raised: #f1f3f6;
    --line: #dfe3e9;
    --line-strong: #868f9d;
    --text: #18212f;
    --muted: #545f70;
    --accent: #2f4fc4;
    --accent-text: #ffffff;
    --accent-soft: #e9edfb;
    --good: #0f6b46;
    --good-soft: #e2f4eb;
    --warning: #855000;
    --warning-soft: #fdf1d8;
    --bad: #b3261e;
    --bad-soft: #fcebea;
    --idle-soft: #e9ecf1;
    --shadow: 0 1px 2px rgb(24 33 47 / 6%), 0 1px 6px rgb(24 33 47 / 4%);
    --radius: 8px;
    --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
    --mono: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}

@media (prefers-color-scheme: dark) {
    :root:not([data-theme="light"]) {
        color-scheme: dark;
        --canvas: #0e1218;
        --surface: #151b24;
        --raised: #1c2430;
        --line: #2a3442;
        --line-strong: #6b788c;
        --text: #e5eaf1;
        --muted: #9eabbd;
        --accent: #9db2ff;
        --accent-text: #10182e;
        --accent-soft: #202b4a;
        --good: #6cd4a2;
        --good-soft: #12301f;
        --warning: #f0bd61;
        --warning-soft: #36280d;
        --bad: #ff9d94;
        --bad-soft: #3d1b19;
        --idle-soft: #252e3b;
        --shadow: 0 1px 2px rgb(0 0 0 / 30%);
    }
}

:root[data-theme="dark"] {
    color-scheme: dark;
    --canvas: #0e1218;
    --surface: #151b24;
    --raised: #1c2430;
    --line: #2a3442;
    --line-strong: #6b788c;
    --text: #e5eaf1;
    --muted: #9eabbd;
    --accent: #9db2ff;
    --accent-text: #10182e;
    --accent-soft: #202b4a;
    --good: #6cd4a2;
    --good-soft: #12301f;
    --warning: #f0bd61;
    --warning-soft: #36280d;
    --bad: #ff9d94;
    --bad-soft: #3d1b19;
    --idle-soft: #252e3b;
    --shadow: 0 1px 2px rgb(0 0 0 / 30%);
}

*,
*::before,
*::after { box-sizing: border-box; }

html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }

body {
    margin: 0;
    background: var(--canvas);
    color: var(--text);
    font: 14px/1.5 var(--sans);
    overflow-wrap: anywhere;
}

h1, h2, h3, p, dl, dd, ul, ol, pre, figure { margin: 0; padding: 0; }
h1 { font-size: 22px; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; }
h2 { font-size: 15px; font-weight: 650; }
h3 { font-size: 13px; font-weight: 650; }
ul { list-style: none; }
a { color: var(--accent); text-underline-offset: 2px; text-decoration-thickness: 1px; }
a:not(:hover) { text-decoration-color: color-mix(in srgb, currentcolor 40%, transparent); }
code, pre, .mono, .key { font-family: var(--mono); font-size: 12.5px; }
time { white-space: nowrap; }
svg { display: block; }
[hidden] { display: none !important; }
.muted { color: var(--muted); }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.scripted .unscripted, :root:not(.scripted) .needs-script { display: none; }

:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
main:focus { outline: none; }

.skip { position: absolute; left: 12px; top: -60px; z-index: 20; padding: 8px 14px; background: var(--accent); color: var(--accent-text); border-radius: 0 0 var(--radius) var(--radius); }
.skip:focus { top: 0; }

/* Frame */

.frame { display: grid; grid-template-columns: 216px minmax(0, 1fr); grid-template-rows: auto 1fr; min-height: 100vh; }
.bar { grid-column: 1; display: flex; align-items: center; justify-content: space-between; padding: 18px 16px 10px 20px; background: var(--surface); border-right: 1px solid var(--line); }
.brand { display: inline-flex; align-items: center; gap: 8px; color: var(--text); font-weight: 700; font-size: 16px; letter-spacing: -0.01em; text-decoration: none; }
.logo { width: 26px; height: 26px; padding: 4px; border-radius: 7px; background: var(--accent); }
.logo path { fill: none; stroke: var(--accent-text); stroke-width: 2.4; stroke-linecap: round; stroke-linejoin: round; }
.button.menu { display: none; }
.nav { grid-column: 1; display: flex; flex-direction: column; padding: 6px 10px 16px; background: var(--surface); border-right: 1px solid var(--line); }
.nav ul { display: grid; gap: 2px; position: sticky; top: 10px; }
.nav li a { display: flex; align-items: center; gap: 10px; padding: 7px 10px; border-radius: 6px; color: var(--muted); font-weight: 500; text-decoration: none; }
.nav li a:hover { background: var(--raised); color: var(--text); }
.nav li a[aria-current] { background: var(--accent-soft); color: var(--accent); font-weight: 600; }
.icon { width: 18px; height: 18px; flex: none; }
.icon path { fill: none; stroke: currentcolor; stroke-width: 1.7; stroke-linecap: round; stroke-linejoin: round; }
.nav-end { margin-top: auto; padding: 14px 10px 0; display: grid; gap: 10px; justify-items: start; position: sticky; bottom: 16px; }
.who { display: grid; line-height: 1.3; max-width: 100%; }
.who-name { font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; max-width: 180px; }
main { grid-column: 2; grid-row: 1 / span 2; padding: 26px 32px 56px; max-width: 1360px; width: 100%; min-width: 0; display: grid; gap: 20px; align-content: start; grid-template-columns: minmax(0, 1fr); }

.head { display: flex; flex-wrap: wrap; gap: 12px 20px; align-items: flex-start; justify-content: space-between; }
.head > div:first-child { min-width: 0; }
.lead { color: var(--muted); margin-top: 4px; max-width: 72ch; }
.actions { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.crumb { font-size: 13px; color: var(--muted); margin-bottom: -12px; }

/* Cards and figures */

.card { background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--shadow); min-width: 0; }
.card-head { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: center; justify-content: space-between; padding: 13px 16px; min-height: 50px; }
.card-head + .table { border-top: 1px solid var(--line); }
.card > .body { padding: 0 16px 16px; display: grid; gap: 12px; grid-template-columns: minmax(0, 1fr); }
.count { display: inline-block; min-width: 20px; padding: 0 7px; margin-left: 4px; border-radius: 10px; background: var(--idle-soft); color: var(--muted); font-size: 12px; font-weight: 600; text-align: center; font-variant-numeric: tabular-nums; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 20px; align-items: start; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 124px), 1fr)); gap: 12px; }
.figure { display: grid; align-content: start; gap: 1px; padding: 13px 16px 12px; background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--shadow); }
.figure-name { color: var(--muted); font-size: 13px; }
.figure-value { font-size: 24px; line-height: 1.25; font-weight: 650; letter-spacing: -0.015em; font-variant-numeric: tabular-nums; }
.figure-note { color: var(--muted); font-size: 12.5px; min-height: 1.5em; }
.figure.bad .figure-value { color: var(--bad); }
.figure.warning .figure-value { color: var(--warning); }
.trends { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 260px), 1fr)); gap: 12px; }
.spark { width: 100%; height: 56px; margin-top: 8px; }
.spark .line { fill: none; stroke: var(--accent); stroke-width: 1.6; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.spark .area { fill: var(--accent-soft); stroke: none; }
.spark .ground { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }

/* Tables */

.table { overflow-x: auto; border-radius: 0 0 var(--radius) var(--radius); }
.table:focus-visible { outline-offset: -2px; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { padding: 8px 16px; background: var(--raised); color: var(--muted); font-size: 12px; font-weight: 600; text-align: left; white-space: nowrap; }
td { padding: 10px 16px; border-top: 1px solid var(--line); vertical-align: top; min-width: 0; }
th + th, td + td { padding-left: 0; }
tbody tr:first-child td { border-top: 0; }
tbody tr:hover { background: color-mix(in srgb, var(--raised) 55%, transparent); }
.num { text-align: right; }
td.num { white-space: nowrap; }
td .clip { display: block; max-width: 42ch; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
td .tight { white-space: nowrap; }
td .sub { display: block; color: var(--muted); font-size: 12.5px; }
tr.fresh { animation: fresh 2.4s ease-out; }
@keyframes fresh { from { background: var(--accent-soft); } }
.key { color: var(--accent); white-space: nowrap; }

/* Status */

.badge { display: inline-flex; align-items: center; gap: 6px; padding: 1px 9px 1px 8px; border-radius: 10px; font-size: 12px; line-height: 18px; font-weight: 600; white-space: nowrap; background: var(--idle-soft); color: var(--muted); }
.badge::before { content: ""; width: 6px; height: 6px; border-radius: 50%; background: currentcolor; }
.badge.good { background: var(--good-soft); color: var(--good); }
.badge.warning { background: var(--warning-soft); color: var(--warning); }
.badge.bad { background: var(--bad-soft); color: var(--bad); }
.badge.active { background: var(--accent-soft); color: var(--accent); }
.tag { display: inline-block; padding: 0 7px; border-radius: 5px; background: var(--raised); border: 1px solid var(--line); font-size: 12px; line-height: 19px; }
.tags { display: flex; flex-wrap: wrap; gap: 4px; }
.mark { display: inline-block; padding: 0 3px; margin: 0 1px; border-radius: 3px; background: var(--warning-soft); color: var(--warning); font: 600 10.5px/15px var(--mono); vertical-align: 1px; }
.notice { padding: 11px 16px; border-radius: var(--radius); border: 1px solid var(--line); border-left: 4px solid var(--line-strong); background: var(--surface); }
.notice.bad { border-left-color: var(--bad); }
.notice.warning { border-left-color: var(--warning); }
.notice.good { border-left-color: var(--good); }
.notice.active { border-left-color: var(--accent); }
.attention li { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 12px; padding: 10px 16px; border-top: 1px solid var(--line); }
.attention .badge { min-width: 118px; }
.attention .what { flex: 1 1 240px; min-width: 0; }
.empty { display: grid; justify-items: center; gap: 4px; padding: 36px 20px 40px; text-align: center; color: var(--muted); }
.empty svg { width: 36px; height: 36px; margin-bottom: 6px; }
.empty svg path { fill: none; stroke: var(--line-strong); stroke-width: 1.4; stroke-linejoin: round; stroke-linecap: round; }
.empty p { max-width: 60ch; }
.empty-title { color: var(--text); font-weight: 600; }
.progress { display: grid; gap: 3px; min-width: 130px; font-size: 12.5px; color: var(--muted); }
progress { appearance: none; width: 100%; height: 8px; border: 0; border-radius: 4px; overflow: hidden; background: var(--idle-soft); }
progress::-webkit-progress-bar { background: var(--idle-soft); }
progress::-webkit-progress-value { background: var(--accent); border-radius: 4px; }
progress::-moz-progress-bar { background: var(--accent); }

/* Facts, code, differences */

.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 230px), 1fr)); gap: 14px 20px; padding: 2px 16px 16px; }
.facts > div { min-width: 0; }
.facts dt { color: var(--muted); font-size: 12.5px; }
.facts dd { min-width: 0; }
.code { margin: 0; padding: 12px 16px; max-height: 560px; overflow: auto; background: var(--raised); border-top: 1px solid var(--line); border-radius: 0 0 var(--radius) var(--radius); line-height: 1.55; white-space: pre-wrap; tab-size: 4; }
.fold > summary { padding: 8px 16px; cursor: pointer; color: var(--muted); }
.code.wide { white-space: pre; overflow-wrap: normal; }
.body > .code { border: 1px solid var(--line); border-radius: 6px; }
.j-name { color: var(--accent); }
.j-text { color: var(--good); }
.j-value { color: var(--warning); }
.diff { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); border-top: 1px solid var(--line); }
.diff h3 { padding: 9px 16px; background: var(--raised); border-bottom: 1px solid var(--line); }
.diff > div + div { border-left: 1px solid var(--line); }
.diff pre { padding: 10px 0; overflow-x: auto; max-height: 560px; }
.diff .row { display: block; padding: 0 16px 0 28px; min-height: 1.5em; white-space: pre-wrap; position: relative; }
.diff .row::before { position: absolute; left: 12px; color: var(--muted); }
.diff .gone { background: var(--bad-soft); }
.diff .gone::before { content: "−"; color: var(--bad); }
.diff .new { background: var(--good-soft); }
.diff .new::before { content: "+"; color: var(--good); }

/* Controls */

.button, button { display: inline-flex; align-items: center; justify-content: center; gap: 6px; min-height: 34px; padding: 5px 13px; border: 1px solid var(--line-strong); border-radius: 6px; background: var(--surface); color: var(--text); font: 600 13px/1.3 var(--sans); text-decoration: none; cursor: pointer; white-space: nowrap; }
.button:hover, button:hover { background: var(--raised); }
.button.primary, button.primary { background: var(--accent); border-color: var(--accent); color: var(--accent-text); }
.button.primary:hover, button.primary:hover { background: color-mix(in srgb, var(--accent) 88%, var(--text)); }
.button.danger, button.danger { border-color: var(--bad); color: var(--bad); }
.button.danger:hover, button.danger:hover { background: var(--bad-soft); }
.button.ghost, button.ghost { border-color: transparent; background: transparent; color: var(--muted); padding-inline: 9px; }
.button.ghost:hover, button.ghost:hover { background: var(--raised); color: var(--text); }
.button.small, button.small { min-height: 28px; padding: 2px 10px; font-size: 12.5px; }
button[aria-pressed="true"] { background: var(--accent-soft); border-color: var(--accent); color: var(--accent); }
button:disabled { opacity: 0.55; cursor: default; }
input, select, textarea { width: 100%; min-height: 34px; padding: 5px 10px; border: 1px solid var(--line-strong); border-radius: 6px; background: var(--surface); color: var(--text); font: 14px/1.4 var(--sans); }
textarea { resize: vertical; min-height: 68px; }
input[type="checkbox"], input[type="radio"] { width: 16px; height: 16px; min-height: 0; accent-color: var(--accent); vertical-align: -3px; }
::placeholder { color: var(--muted); opacity: 1; }
label, .label { display: block; margin-bottom: 3px; font-size: 12.5px; font-weight: 600; color: var(--muted); }
label.check { display: flex; gap: 8px; align-items: center; font-weight: 400; font-size: 14px; color: var(--text); }
.filter { padding: 14px 16px 16px; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 190px), 1fr)); gap: 12px; align-items: start; }
.filter .wide { grid-column: span 2; }
.filter .actions { padding-top: 22px; }
.filter .whole { grid-column: 1 / -1; display: grid; gap: 8px; justify-items: start; }
.outcome:empty { display: none; }
.outcome ul { list-style: disc; padding-left: 20px; }
.stack { display: grid; gap: 12px; }
.tabs { display: flex; flex-wrap: wrap; gap: 4px; }
.tabs a { padding: 4px 11px; border-radius: 6px; color: var(--muted); font-weight: 600; font-size: 13px; text-decoration: none; }
.tabs a:hover { background: var(--raised); color: var(--text); }
.tabs a[aria-current] { background: var(--accent-soft); color: var(--accent); }
.pager { display: flex; gap: 8px; justify-content: flex-end; padding: 12px 16px; border-top: 1px solid var(--line); }
.field-error { color: var(--bad); font-size: 13px; font-weight: 600; white-space: pre-wrap; font-family: var(--mono); }

dialog { width: min(520px, calc(100vw - 24px)); padding: 0; border: 1px solid var(--line); border-radius: 12px; background: var(--surface); color: var(--text); box-shadow: 0 16px 48px rgb(0 0 0 / 28%); }
dialog::backdrop { background: rgb(10 14 20 / 50%); }
dialog form, dialog .inside { display: grid; gap: 14px; padding: 20px; grid-template-columns: minmax(0, 1fr); }
dialog h2 { font-size: 17px; }
dialog .actions { justify-content: flex-end; }
#toasts { position: fixed; right: 16px; bottom: 16px; z-index: 30; display: grid; gap: 8px; width: min(420px, calc(100vw - 32px)); }
#toasts .notice { box-shadow: 0 6px 24px rgb(0 0 0 / 18%); }

/* Days of retention */

.days { display: grid; gap: 0; }
.day-bar { width: 100%; height: 12px; }
.day-bar rect { fill: var(--accent); }
.day-bar .ground { fill: var(--idle-soft); }
.day-bar.warning rect:last-child { fill: var(--warning); }
.day-bar.idle rect:last-child { fill: var(--line-strong); }
.day-bar.bad rect:last-child { fill: var(--bad); }
td.bar-cell { width: 32%; min-width: 120px; vertical-align: middle; }

.alone { display: grid; place-items: center; min-height: 100vh; padding: 16px; }
.alone main { width: min(420px, 100%); padding: 28px; grid-row: auto; grid-column: auto; gap: 16px; }

/* Narrow screens: the navigation folds, tables become cards. */

@media (max-width: 860px) {
    .frame { display: block; }
    .bar { padding: 10px 16px; border-right: 0; border-bottom: 1px solid var(--line); position: sticky; top: 0; z-index: 10; }
    .scripted .button.menu { display: inline-flex; }
    .nav { border-right: 0; border-bottom: 1px solid var(--line); padding: 8px; }
    .nav ul { position: static; grid-template-columns: 1fr 1fr; }
    .nav-end { position: static; display: flex; justify-content: space-between; align-items: center; padding-top: 10px; }
    .scripted .nav:not(.open) { display: none; }
    main { padding: 18px 14px 40px; gap: 14px; }
    h1 { font-size: 20px; }
    .filter .wide { grid-column: auto; }
    .diff { grid-template-columns: minmax(0, 1fr); }
    .diff > div + div { border-left: 0; border-top: 1px solid var(--line); }
}

@media (max-width: 640px) {
    table, tbody, tr, td { display: block; }
    thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    tbody tr { padding: 10px 14px; border-top: 1px solid var(--line); }
    tbody tr:first-child { border-top: 0; }
    td, td + td { display: grid; grid-template-columns: 112px minmax(0, 1fr); gap: 10px; padding: 3px 0; border: 0; text-align: left; }
    td::before { content: attr(data-label); color: var(--muted); font-size: 12.5px; }
    td:empty { display: none; }
    td.num { text-align: left; white-space: normal; }
    td[data-label=""] { grid-template-columns: minmax(0, 1fr); padding-top: 6px; }
    td[data-label=""]::before { content: none; }
    td.bar-cell { width: auto; }
    td .clip { max-width: 100%; white-space: normal; }
    .figures, .filter { grid-template-columns: 1fr 1fr; }
    .filter { padding: 12px 14px 14px; gap: 10px; }
    .filter .wide, .filter .actions { grid-column: span 2; }
    .figure { padding: 11px 12px; }
    .figure-value { font-size: 20px; }
}

@media (prefers-reduced-motion: reduce) {
    * { animation: none !important; transition: none !important; }
}
"""####),
        File(name: "console.js", content: ####"""
// What every page runs; each module finds for itself whether the page has something for it.
import { startActions } from "./actions.js";
import { startLive } from "./live.js";
import { startMenu, startTheme } from "./shell.js";
import { startTail } from "./tail.js";
import { showLocalTimes } from "./times.js";

startTheme();
startMenu();
showLocalTimes(document);
startActions();
startLive();
startTail();
"""####),
        File(name: "icon.svg", content: ####"""
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><rect width="24" height="24" rx="6" fill="#2f4fc4"/><path d="M12 18V6M7 11l5-5 5 5M6 18h12" fill="none" stroke="#fff" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"/></svg>
"""####),
        File(name: "live.js", content: ####"""
// Fetches the page again and takes over its live parts: the server alone decides how things look.
import { showLocalTimes } from "./times.js";

let timer;

/** What finds the focused element again in a newer version of its part; null where nothing does. */
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
    // The focus stays where it was; where its element is gone, it goes to the content's beginning.
    if (focused) ((key && old.querySelector(key)) ?? document.getElementById("main")).focus({ preventScroll: true });
}

/** Replaces each part marked `data-live` by its newer self; unless it is forced, a part where somebody works stays. */
export async function refresh(isForced = false) {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    // Signed out meanwhile: the server leads to the sign-in page.
    if (response.redirected) return location.reload();
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(old.id);
        if (fresh) replace(old, fresh, isForced);
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
"""####),
        File(name: "shell.js", content: ####"""
// The theme's switch, the folding navigation, and messages to the reader.

const root = document.documentElement;

const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

/** Shows the switch and keeps what was chosen. */
export function startTheme() {
    const button = document.querySelector("button.theme");
    if (!button) return;
    const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
        root.dataset.theme = isDark() ? "light" : "dark";
        try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this page */ }
        label();
    });
}

/** Folds the navigation away where the screen is narrow. */
export function startMenu() {
    const button = document.querySelector("button.menu");
    const nav = document.getElementById("nav");
    if (!button || !nav) return;
    const set = (open) => {
        nav.classList.toggle("open", open);
        button.setAttribute("aria-expanded", String(open));
    };
    button.addEventListener("click", () => set(!nav.classList.contains("open")));
    document.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || !nav.classList.contains("open")) return;
        set(false);
        button.focus();
    });
}

/** Shows a message for a while; failures stay until they are closed. */
export function toast(text, tone = "good") {
    const place = document.getElementById("toasts");
    if (!place) return;
    const note = document.createElement("div");
    note.className = `notice ${tone}`;
    note.textContent = text;
    if (tone === "bad") {
        const close = document.createElement("button");
        close.type = "button";
        close.className = "button ghost small";
        close.textContent = "Dismiss";
        close.addEventListener("click", () => note.remove());
        note.append(" ", close);
    } else {
        setTimeout(() => note.remove(), 6000);
    }
    place.append(note);
}
"""####),
        File(name: "tail.js", content: ####"""
// The live tail: new messages on top of the list, as they commit.
import { toast } from "./shell.js";
import { showLocalTimes } from "./times.js";

const limit = 200;

/** Characters that are not seen, or that turn the direction of text: shown by their number, as the server does. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u;

/** Text from a stranger: isolated, with marks for what is not seen. */
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

/** The cells of a row, in the order of the table's columns. */
const cells = {
    Received(message) {
        const time = element("time", "", message.received_at.slice(0, 19).replace("T", " "));
        time.dateTime = message.received_at;
        const age = element("time", "age", "now");
        age.dateTime = message.received_at;
        age.title = `${time.textContent} UTC`;
        return [time, element("span", "sub", age)];
    },
    Category: (message) => [element("span", "tag", stranger(message.category))],
    "Message id": (message) => [
        link("mono", `/messages/${message.message_key}`, "", stranger(cut(message.message_id, 120))),
    ],
    Device: (message) => [
        link("key", `/messages?device=${message.device_key}`, message.device_key, message.device_key.slice(0, 8)),
    ],
    Sender: (message) => [element("span", "mono tight", stranger(message.sender_id))],
    Data(message) {
        const text = message.data_raw ?? (message.data === undefined ? undefined : JSON.stringify(message.data));
        if (text === undefined) return [element("span", "muted", "none")];
        return [element("code", "clip", stranger(cut(text, 160)))];
    },
};

function row(message, columns) {
    const made = element("tr", "fresh");
    made.dataset.key = message.message_key;
    for (const column of columns) {
        const cell = element("td", "", ...(cells[column]?.(message) ?? []));
        cell.dataset.label = column;
        made.append(cell);
    }
    return made;
}

/** Lets the button switch the tail on and off. */
export function startTail() {
    const button = document.getElementById("tail-toggle");
    const body = document.getElementById("message-rows");
    if (!button || !body) return;
    const columns = Array.from(body.closest("table").tHead.rows[0].cells, (cell) => cell.textContent);
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
            // A hidden page draws nothing: what waits stays bounded.
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
"""####),
        File(name: "theme.js", content: ####"""
// Runs before the page is drawn, so that a chosen theme does not flash.
(() => {
    const root = document.documentElement;
    root.classList.add("scripted");
    try {
        const theme = localStorage.getItem("theme");
        if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    } catch {
        // Without storage the system's theme holds.
    }
})();
"""####),
        File(name: "times.js", content: ####"""
// Adds the local time to each moment, and keeps relative ages fresh.

const local = new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium", timeStyle: "medium",
});

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** A distance in seconds as the server writes it: `4 s`, `3 min`, `5.2 h`. */
export function distance(seconds) {
    const [unit, size] = units.find(([unit, size]) => seconds >= (unit === "s" ? 0 : unit === "min" ? 90 : unit === "h" ? 5400 : 172800)) ?? units[3];
    const number = seconds / size;
    return `${number < 99.95 ? String(Math.round(number * 10) / 10) : Math.round(number)} ${unit}`;
}

function age(time) {
    const seconds = (Date.now() - new Date(time.dateTime)) / 1000;
    if (Math.abs(seconds) < 1) return "now";
    return seconds > 0 ? `${distance(seconds)} ago` : `in ${distance(-seconds)}`;
}

/** Gives every `time` in a part of the page its local time. */
export function showLocalTimes(part) {
    for (const time of part.querySelectorAll("time[datetime]")) {
        const moment = new Date(time.dateTime);
        if (Number.isNaN(moment.getTime())) continue;
        const utc = time.classList.contains("age") ? time.title : time.textContent.replace(/( UTC)?$/, " UTC");
        time.title = `${utc}\n${local.format(moment)} local time`;
        if (time.classList.contains("both") && !time.nextElementSibling?.classList.contains("local")) {
            const text = document.createElement("span");
            text.className = "local muted";
            text.textContent = ` · ${local.format(moment)} local`;
            time.after(text);
        }
    }
}

setInterval(() => {
    for (const time of document.querySelectorAll("time.age")) time.textContent = age(time);
}, 5000);
"""####),
    ]
}
