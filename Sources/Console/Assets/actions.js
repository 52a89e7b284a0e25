// Buttons and dialogs that act: each request is JSON with its own Idempotency-Key, kept until it is answered.
import { refresh } from "./live.js";
import { element, toast } from "./shell.js";
import { stranger } from "./tail.js";

/** A unique key; works without a secure context too. */
function newKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A failed request's message with its fix, from problem details (RFC 9457). */
async function problem(response) {
    const body = await response.json().catch(() => null);
    return body?.detail ? `${body.title}: ${body.detail}` : `The console answered ${response.status}.`;
}

/** Sends a request; throws an Error with a message for people. */
export async function send(path, body, key = newKey()) {
    let response;
    try {
        response = await fetch(path, {
            method: "POST",
            headers: { "Content-Type": "application/json", "Idempotency-Key": key },
            body: JSON.stringify(body),
        });
    } catch {
        throw new Error("The console can't be reached; nothing is known to have been done. Try again.");
    }
    if (!response.ok) throw Object.assign(new Error(await problem(response)), { isAnswered: true });
    return response.json().catch(() => ({}));
}

const chosen = () => [...document.querySelectorAll("input[data-choose]:checked")];

/** The fields of a form, and the chosen rows where it acts on these, as the API's JSON: empty ones are left out. */
export function fields(form) {
    const body = {};
    for (const field of [...form.elements, ...("chosen" in form.dataset ? chosen() : [])]) {
        if (!field.name || field.disabled || !field.value) continue;
        if ((field.type === "radio" || field.type === "checkbox") && !field.checked) continue;
        const kind = field.dataset.kind;
        const value = kind === "number" ? Number(field.value) : kind === "flag" ? true : field.value;
        const names = field.name.split(".");
        const last = names.pop();
        const place = names.reduce((object, name) => (object[name] ??= {}), body);
        // A name that comes again is a list.
        if (kind === "list" || last in place) place[last] = [].concat(place[last] ?? [], value);
        else place[last] = value;
    }
    return body;
}

const count = (number) => Number(number).toLocaleString("en");

function say(form, ...content) {
    form.querySelector(".outcome")?.replaceChildren(...content);
}

const line = (text, className) => element("p", className, text);

/** Describes a frozen set before anything is done to it. */
function summary(job) {
    if (job.about) return [line(`This touches ${job.about}.`)];
    const items = (job.groups ?? []).slice(0, 8).map((group) => element(
        "li", "", `${count(group.count)} × `, stranger(group.handler), ": ", stranger(group.error_group),
    ));
    const what = `This touches ${count(job.planned)} dead letter${job.planned === 1 ? "" : "s"}, as of now:`;
    return [line(what), element("ul", "", ...items)];
}

function bar(job) {
    const progress = element("progress");
    progress.max = Math.max(1, job.planned);
    progress.value = job.done + job.skipped;
    progress.setAttribute("aria-label", "Progress");
    const gone = job.skipped ? `, ${count(job.skipped)} were gone` : "";
    return element("div", "progress", progress, element("span", "", `${count(job.done)} of ${count(job.planned)} done${gone}`));
}

const ended = ["finished", "cancelled", "failed", "expired"];

/** Shows a job's progress until it has ended; asks now and then, since a stream would keep a connection. */
async function follow(job, form) {
    while (!ended.includes(job.state)) {
        say(form, bar(job));
        await new Promise((go) => setTimeout(go, 500));
        const answer = await fetch(`/api/v1/jobs/${job.id}`).catch(() => null);
        if (answer?.ok) job = await answer.json();
        else if (answer?.status < 500) throw new Error(await problem(answer));
    }
    return job;
}

function finish(form, text, tone) {
    form.closest("dialog")?.close();
    if (form.dataset.next) return location.assign(form.dataset.next);
    toast(text, tone);
    refresh().catch(() => {});
}

const cancelled = (job) => `Cancelled: ${count(job.done)} of ${count(job.planned)} had been done`;

/** Cancels what the dialog prepared or began; what is done stays done. */
async function cancel(button) {
    const form = button.closest("form");
    button.disabled = true;
    try {
        const job = await send(`/api/v1/jobs/${form.dataset.job}/cancel`, {});
        // Who follows a running job tells of its end.
        if (!form.dataset.running) finish(form, cancelled(job), "bad");
    } catch (error) {
        say(form, line(error.message, "notice bad"));
    } finally {
        button.disabled = false;
    }
}

/** Acts on what was counted, part by part. */
async function inParts(form, key) {
    const body = { ...fields(form), as_of: form.dataset.asOf };
    let [done, answer] = [0, {}];
    do {
        answer = await send(form.dataset.action, body, key);
        done += answer.done;
        key = newKey();
        say(form, line(`${count(done)} done.`));
    } while (answer.more);
    finish(form, `${form.dataset.done}: ${count(done)}`);
}

/** Freezes, or counts, and shows the affected set first, then acts on it. */
async function frozen(form, button, key) {
    if (form.dataset.asOf) return inParts(form, key);
    if (!form.dataset.job) {
        // Without a key the filter would select all of the handler's.
        if ("chosen" in form.dataset && !chosen().length) return say(form, line("Nothing is chosen."));
        const { reason, rate, ...body } = fields(form);
        const job = await send(form.dataset.action, body, key);
        if (!job.planned) return say(form, line(job.about ?? "Nothing matches any more."));
        if (job.id) form.dataset.job = job.id;
        else form.dataset.asOf = job.as_of;
        form.querySelector("[data-cancel]").hidden = !job.id;
        say(form, ...summary(job));
        button.textContent = `${form.dataset.verb} ${count(job.planned)}`;
        button.formNoValidate = false;
        return;
    }
    const { reason, rate } = fields(form);
    const job = await send(form.dataset.action, { id: form.dataset.job, reason, rate }, key);
    form.dataset.running = job.id;
    const end = await follow(job, form);
    delete form.dataset.running;
    if (end.state === "failed") throw new Error(end.error ?? "The job failed.");
    if (end.state === "cancelled") return finish(form, cancelled(end), "bad");
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
        parts.push(element("ul", "", ...answer.handlers.map((at) => element(
            "li", "", `${at.handler}: ${count(at.planned)} to send; ${count(at.handled)} handled before, `
                + `${count(at.dead)} dead letters, ${count(at.pending)} wait anyway`,
        ))));
    }
    if (!answer.replay_id) return say(form, ...parts, line("There is nothing to send: widen the filter or the scope.", "muted"));
    const link = element("a", "button primary", "Look at the plan and start it");
    link.href = `/replays/${encodeURIComponent(answer.replay_id)}`;
    say(form, ...parts, line("Nothing is sent until you start it.", "muted"), link);
    link.focus();
}

async function act(form) {
    const button = form.querySelector("button:not([type])");
    if (button.disabled) return;
    button.disabled = true;
    // Retries without an answer reuse the key, so that nothing is done twice.
    const key = (form.dataset.key ??= newKey());
    try {
        if (form.dataset.verb) {
            await frozen(form, button, key);
        } else if (form.dataset.steps === "plan") {
            await plan(form, key);
        } else {
            const answer = await send(form.dataset.action, fields(form), key);
            const number = answer.done === undefined ? "" : `: ${count(answer.done)}`;
            finish(form, answer.why ? `${form.dataset.done}${number}. ${answer.why}` : form.dataset.done + number);
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

/** Shows a registration token in place of its button; the audit trail records who saw it. */
async function reveal(button) {
    button.disabled = true;
    try {
        const response = await fetch(button.dataset.reveal);
        if (!response.ok) throw new Error(await problem(response));
        const token = element("code", "mono token", (await response.json()).registration_token ?? "gone");
        token.tabIndex = -1;
        button.parentElement.replaceChildren(token);
        token.focus();
    } catch (error) {
        button.disabled = false;
        toast(error.message, "bad");
    }
}

/** Resets a dialog each time it is opened. */
function reset(dialog) {
    const form = dialog.querySelector("form");
    if (!form) return;
    for (const name of ["job", "asOf", "key", "running"]) delete form.dataset[name];
    form.reset();
    say(form);
    const button = form.querySelector("button:not([type])");
    if (button?.dataset.first) button.textContent = button.dataset.first;
    if (form.dataset.verb) button.formNoValidate = true;
    form.querySelector("[data-cancel]")?.setAttribute("hidden", "");
}

function choose(isChosen) {
    for (const box of document.querySelectorAll("input[data-choose]")) box.checked = isChosen(box);
    showChosen();
}

/** Only what is chosen can be acted on. */
function showChosen() {
    const none = !chosen().length;
    for (const button of document.querySelectorAll("[data-needs-chosen]")) button.disabled = none;
}

/** Opens a button's dialog; one in a row chooses that row alone. */
function show(opener) {
    const dialog = document.getElementById(opener.dataset.dialog);
    const isAlone = "alone" in opener.dataset;
    if (isAlone) choose((box) => box.closest("tr") === opener.closest("tr"));
    reset(dialog);
    dialog.showModal();
    if (isAlone) act(dialog.querySelector("form"));
}

/** Listens to all acting forms and buttons, including those added later. */
export function startActions() {
    document.addEventListener("submit", (event) => {
        const form = event.target;
        if (!form.dataset.action) return;
        event.preventDefault();
        act(form);
    });
    showChosen();
    document.addEventListener("change", ({ target }) => {
        if ("chooseAll" in target.dataset) choose(() => target.checked);
        else showChosen();
    });
    document.addEventListener("click", ({ target }) => {
        const at = (name) => target.closest(`[data-${name}]`);
        const opener = at("dialog");
        if (opener) return show(opener);
        if (at("reveal")) reveal(at("reveal"));
        if (at("cancel")) cancel(at("cancel"));
        if (at("close")) target.closest("dialog")?.close();
    });
    // An address may name a dialog; once, not when the page is loaded again.
    const { hash, pathname, search } = location;
    const named = hash && document.querySelector(`[data-dialog="${CSS.escape(hash.slice(1))}"]`);
    if (!named) return;
    history.replaceState(null, "", pathname + search);
    named.click();
}
