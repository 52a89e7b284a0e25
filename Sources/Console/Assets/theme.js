// Runs before the page is drawn, so that a chosen theme does not flash.
(() => {
    const root = document.documentElement;
    root.classList.add("scripted");
    try {
        const theme = localStorage.getItem("theme");
        if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    } catch {
        // Without storage the system's theme applies.
    }
})();
