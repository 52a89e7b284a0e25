// Copies a value of a message's JSON, the path to it as filters take it, or all of it.
import { element, toast } from "./shell.js";
import { verbatim } from "./tail.js";

async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        // Pages without TLS have no clipboard.
        const box = element("textarea");
        box.value = text;
        document.body.append(box);
        box.select();
        document.execCommand("copy");
        box.remove();
    }
    toast("Copied");
}

/** A value with the characters that marks stand for. */
function spelled(value) {
    const exact = value.cloneNode(true);
    for (const mark of exact.querySelectorAll(".mark")) {
        mark.replaceWith(String.fromCodePoint(parseInt(mark.textContent.slice(2), 16) || 0xFFFD));
    }
    return exact.textContent;
}

const isPart = (node) => node.nodeType === Node.TEXT_NODE || /^j-/.test(node.className);

/** The path to a name or value, by what stands before it. */
function path(box, target) {
    const [steps, parts] = [[], document.createTreeWalker(box, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT)];
    for (let node = parts.nextNode(); node; node = parts.nextNode()) {
        if (!isPart(node) || (node.nodeType === Node.TEXT_NODE && node.parentElement.closest("[class^=j-]"))) continue;
        if (node.className === "j-name") steps[steps.length - 1] = spelled(node);
        if (node === target) break;
        if (node.nodeType !== Node.TEXT_NODE) continue;
        for (const mark of node.data) {
            if (mark === "{" || mark === "[") steps.push(mark === "{" ? "" : 0);
            else if (mark === "}" || mark === "]") steps.pop();
            else if (mark === "," && typeof steps.at(-1) === "number") steps[steps.length - 1] += 1;
        }
    }
    return box.dataset.path + steps.map((step) => {
        if (typeof step === "number") return `[${step}]`;
        return /^"[\w-]+"$/.test(step) ? `.${step.slice(1, -1)}` : `.${step}`;
    }).join("");
}

function button(label, text) {
    const made = element("button", "small", label);
    made.addEventListener("click", () => copy(text));
    return made;
}

/** Offers to copy what was clicked. */
function offer(target) {
    const box = target.closest("[data-path]");
    const bar = box.previousElementSibling?.matches(".copy") ? box.previousElementSibling : element("div", "copy");
    const place = path(box, target);
    bar.replaceChildren(element("code", "", place), button("Copy path", place));
    if (target.className !== "j-name") bar.append(button("Copy value", spelled(target)));
    box.before(bar);
}

async function copyAll(from) {
    try {
        const answer = await fetch(from.dataset.copy);
        if (!answer.ok) throw new Error();
        const [text, name] = [await answer.text(), from.dataset.member];
        const whole = JSON.parse(text);
        await copy(whole[`${name}_verbatim`] ?? whole[`${name}_raw`] ?? verbatim(text, name) ?? "");
    } catch {
        toast("The console can’t give it now.", "bad");
    }
}

export function startCopy() {
    document.addEventListener("click", ({ target }) => {
        const part = target.closest("[data-path] [class^=j-]");
        // A name before a bracket folds.
        if (part && !part.closest("summary") && getSelection().isCollapsed) offer(part);
        const all = target.closest("[data-copy]");
        if (all) copyAll(all);
    });
}
