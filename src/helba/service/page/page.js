// Asks the server how it is, every two seconds while somebody looks, and shows the answer.
//
// What is shown is never old: when no answer came for STALE milliseconds the numbers go, and the
// page says since when. Failures, and a page that nobody looks at, slow the asking down.

import { clearHistory, listen, showHistory } from "./history.js";
import { find, showTenant, stateOf, toneOf } from "./panel.js";

const EVERY = 2000, HISTORY_EVERY = 10000, HIDDEN_EVERY = 30000, SLOWEST = 30000;
const STALE = 5000, SLOW = 4000, PATIENCE = 8000;
const MINUTES = 60;

let tenants = [];
let chosen = decodeHash();
let answeredAt = null;
let failures = 0;
let trouble = "";
let timer = 0;
let askedAt = null; // while a question is out
let askingHistory = false;
let historyAt = 0;
let historyOf = null;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

function decodeHash() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

async function ask(path) {
  const answer = await fetch(new URL(path, document.baseURI), {
    cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE),
  });
  if (!answer.ok) throw new Error(`the server answers with ${answer.status}`);
  return answer.json();
}

const current = () => tenants.find((one) => one.name === chosen) ?? tenants[0];

function spell(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

function say(text, lost) {
  const pulse = find("pulse");
  if (pulse.textContent !== text) pulse.textContent = text;
  pulse.classList.toggle("lost", lost);
}

function showTabs() {
  find("tenants").hidden = tenants.length < 2;
  const bar = find("tabs");
  const names = JSON.stringify(tenants.map((one) => one.name));
  if (bar.dataset.names !== names) {
    bar.dataset.names = names;
    bar.replaceChildren(...tenants.map((one, n) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.id = `tab-${n}`;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", "tenant");
      const dot = document.createElement("span");
      dot.className = "dot";
      const label = document.createElement("span");
      tab.append(dot, label);
      tab.addEventListener("click", () => choose(one.name));
      return tab;
    }));
  }
  tenants.forEach((one, n) => {
    const tab = bar.children[n], mine = one === current();
    tab.className = toneOf(one);
    tab.lastElementChild.textContent = one.simulated ? `${one.name} (simulated)` : one.name;
    tab.setAttribute("aria-label", `${tab.lastElementChild.textContent}: ${stateOf(one)}`);
    tab.setAttribute("aria-selected", String(mine));
    tab.tabIndex = mine ? 0 : -1;
    if (mine) namePanel(tenants.length > 1 ? tab.id : null);
  });
}

// With several tenants, what is shown is the panel of a tab.
function namePanel(tab) {
  const panel = find("tenant");
  if (tab === null) {
    panel.removeAttribute("role");
    panel.removeAttribute("aria-labelledby");
  } else {
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab);
  }
}

function choose(name) {
  chosen = name;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  render();
  poll();
}

function walk(event) {
  const at = tenants.indexOf(current()), most = tenants.length;
  const goals = { ArrowRight: (at + 1) % most, ArrowLeft: (at + most - 1) % most, Home: 0, End: most - 1 };
  if (!Object.hasOwn(goals, event.key)) return;
  event.preventDefault();
  choose(tenants[goals[event.key]].name);
  find("tabs").children[goals[event.key]].focus();
}

// Old is what no answer stands behind any more: questions fail, or one is out for too long.
function isOld() {
  if (answeredAt === null) return true;
  const unanswered = failures > 0 || (askedAt !== null && Date.now() - askedAt > SLOW);
  return unanswered && Date.now() - answeredAt > STALE;
}

function render() {
  const tenant = current();
  const old = isOld();
  if (old) {
    const since = answeredAt === null ? "No answer yet" : `No answer since ${clock.format(answeredAt)}`;
    if (failures || answeredAt) say(trouble ? `${since}: ${trouble}` : since, true);
  } else {
    say(tenant ? "Answering" : "Answering, without a tenant", false);
  }
  for (const id of ["panel", "server"]) find(id).hidden = old || (id === "panel" && !tenant);
  find("tenants").hidden = old || tenants.length < 2;
  document.title = old ? (failures || answeredAt ? "no answer · helba" : "helba") : `${tenant ? `${stateOf(tenant)} · ` : ""}helba`;
  if (old || !tenant) return;
  showTabs();
  showTenant(tenant);
  if (historyOf !== tenant.name) {
    historyOf = tenant.name;
    historyAt = 0;
    clearHistory("Asking for the history.");
  }
}

async function refreshHistory() {
  const tenant = current();
  if (!tenant || askingHistory || Date.now() - historyAt < HISTORY_EVERY) return;
  askingHistory = true;
  try {
    const found = await ask(`v1/tenants/${encodeURIComponent(tenant.name)}/history?minutes=${MINUTES}`);
    if (historyOf === tenant.name) showHistory(found);
  } catch {
    if (historyOf === tenant.name) clearHistory("There is no history at the moment.");
  }
  askingHistory = false;
  if (historyOf === tenant.name) historyAt = Date.now();
}

async function poll() {
  clearTimeout(timer);
  if (askedAt !== null) return;
  askedAt = Date.now();
  try {
    const status = await ask("v1/status");
    tenants = (Array.isArray(status.tenants) ? status.tenants : []).filter((one) => one && typeof one === "object");
    answeredAt = Date.now();
    failures = 0;
    document.querySelector('[data-server="version"]').textContent = status.version ?? "–";
    document.querySelector('[data-server="uptime"]').textContent = spell(status.uptime_seconds);
    render();
    refreshHistory();
  } catch (error) {
    failures += 1;
    trouble = error instanceof Error && error.message.startsWith("the server answers") ? error.message : "";
    historyAt = 0;
    render();
  }
  askedAt = null;
  const next = document.hidden ? HIDDEN_EVERY : Math.min(SLOWEST, EVERY * 2 ** Math.min(failures, 5));
  timer = setTimeout(poll, failures && answeredAt && Date.now() - answeredAt < STALE ? EVERY : next);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
});
addEventListener("hashchange", () => {
  chosen = decodeHash();
  render();
});
find("tabs").addEventListener("keydown", walk);
listen();
setInterval(() => { if (!document.hidden && isOld()) render(); }, 1000);
poll();
