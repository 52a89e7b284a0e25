// The bar that says since when, and why, what the page shows is no longer kept up to date.
import { element } from "./shell.js";
import { distance } from "./times.js";

/** What is not up to date, by name: since when by this clock, that moment for people, why, and what tries again. */
const sources = new Map();
let clock;

function draw() {
    const main = document.getElementById("main");
    const [first] = [...sources.values()].sort((left, right) => left.since - right.since);
    main.classList.toggle("is-stale", sources.has("page"));
    let bar = document.getElementById("stale");
    if (!first) {
        bar?.remove();
        clearInterval(clock);
        clock = undefined;
        return;
    }
    if (!bar) {
        const why = element("span");
        // The age changes every second: only the reason is read aloud.
        why.setAttribute("role", "alert");
        const again = element("button", "small", "Try now");
        again.addEventListener("click", () => { for (const source of [...sources.values()]) source.again(); });
        bar = element("div", "notice bad", element("strong"), why, again);
        bar.id = "stale";
        main.prepend(bar);
    }
    const [age, why] = bar.children;
    const seconds = Math.max(0, Math.round((Date.now() - first.since) / 1000));
    age.textContent = `As of ${first.moment}, ${distance(seconds)} ago`;
    if (why.textContent !== first.why) why.textContent = first.why;
    clock ??= setInterval(draw, 1000);
}

/** Says that a part has not been up to date since a moment, until `isFresh` is called for it. */
export function isStale(name, since, moment, why, again) {
    sources.set(name, { since, moment, why, again });
    draw();
}

export function isFresh(name) {
    if (sources.delete(name)) draw();
}

/** A moment's time of day in UTC. */
export const clockTime = (moment) => `${new Date(moment).toISOString().slice(11, 19)} UTC`;
