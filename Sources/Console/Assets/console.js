// Runs on every page; each module checks whether the page has work for it.
import { startActions } from "./actions.js";
import { startCopy } from "./copy.js";
import { startFind, startViews } from "./find.js";
import { startLive } from "./live.js";
import { startMenu, startTheme } from "./shell.js";
import { startTail } from "./tail.js";
import { showLocalTimes } from "./times.js";

startTheme();
startMenu();
showLocalTimes(document);
startActions();
startCopy();
startFind();
try { startViews(); } catch { /* no storage */ }
startLive();
startTail();
