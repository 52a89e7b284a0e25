// The theme's switch, the folding navigation, and messages to the reader.

const root = document.documentElement;

/** A new element of a class, with text and other elements in it. */
export function element(name, className = "", ...content) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (name === "button") made.type = name;
    made.append(...content);
    return made;
}

const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

/** Shows the switch and stores the choice. */
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

/** Folds the navigation on narrow screens. */
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
    const note = element("div", `notice ${tone}`, text);
    if (tone === "bad") {
        const close = element("button", "ghost small", "Dismiss");
        close.addEventListener("click", () => note.remove());
        note.append(" ", close);
    } else {
        setTimeout(() => note.remove(), 6000);
    }
    place.append(note);
}
