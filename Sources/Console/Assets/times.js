// Adds the local time to each moment, and keeps relative ages up to date.

import { element } from "./shell.js";

const local = new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium", timeStyle: "medium",
});

/** Each with its seconds, and from how many on it is used. */
const units = [["d", 86400, 172800], ["h", 3600, 5400], ["min", 60, 90], ["s", 1, 0]];

/** Formats a distance in seconds as the server does: `4 s`, `3 min`, `5.2 h`. */
export function distance(seconds) {
    const [unit, size] = units.find(([, , least]) => seconds >= least) ?? units[3];
    const number = seconds / size;
    return `${number < 99.95 ? String(Math.round(number * 10) / 10) : Math.round(number)} ${unit}`;
}

function age(time) {
    const seconds = (Date.now() - new Date(time.dateTime)) / 1000;
    if (Math.abs(seconds) < 1) return "now";
    return seconds > 0 ? `${distance(seconds)} ago` : `in ${distance(-seconds)}`;
}

/** Adds the local time to every `time` in a part of the page. */
export function showLocalTimes(part) {
    for (const time of part.querySelectorAll("time[datetime]")) {
        const moment = new Date(time.dateTime);
        if (Number.isNaN(moment.getTime())) continue;
        const utc = time.classList.contains("age") ? time.title : time.textContent;
        time.title = `${utc}\n${local.format(moment)} local time`;
        if (time.classList.contains("both") && !time.nextElementSibling?.classList.contains("local")) {
            time.after(element("span", "local muted", ` · ${local.format(moment)} local`));
        }
    }
}

setInterval(() => {
    for (const time of document.querySelectorAll("time.age")) time.textContent = age(time);
}, 5000);
