// What is shown of one tenant. Texts are set as text, never as markup.

const count = new Intl.NumberFormat();
const ABSENT = "–";
const has = (value) => value !== null && value !== undefined && value !== "";
const numberOf = (value) => (Number.isFinite(value) ? count.format(value) : ABSENT);
const textOf = (value) => (has(value) ? String(value) : ABSENT);

export const find = (id) => document.getElementById(id);

export function show(name, text) {
  for (const element of document.querySelectorAll(`[data-show="${name}"]`))
    if (element.textContent !== text) element.textContent = text;
}

const STATES = { serving: "Serving", starting: "Starting", failed: "Failed", stopped: "Stopped" };
export const stateOf = (tenant) => STATES[tenant.state] ?? textOf(tenant.state);
export const toneOf = (tenant) =>
  ({ serving: "serving", starting: "starting" })[tenant.state] ?? "failed";

const ENGINES = { ckks: "CKKS", simulate: "simulated, not encrypted" };
const KEYS = { own: "each user its own", shared: "one for all users", switched: "each user its own, both ways" };
const REFRESHES = { client: "by users, masked", bootstrap: "bootstrapping", none: "none" };
const named = (names, value) => (Object.hasOwn(names, value ?? "") ? names[value] : textOf(value));

function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return [ABSENT, ""];
  if (milliseconds < 1000) return [String(Math.round(milliseconds)), "ms"];
  if (milliseconds < 60000) return [(milliseconds / 1000).toFixed(milliseconds < 9950 ? 2 : 1), "s"];
  return [(milliseconds / 60000).toFixed(1), "min"];
}

function throughput(perSecond) {
  if (!Number.isFinite(perSecond)) return [ABSENT, ""];
  if (perSecond === 0) return ["0", "rounds/min"];
  if (perSecond >= 1) return [perSecond.toFixed(perSecond < 9.95 ? 1 : 0), "rounds/s"];
  const perMinute = perSecond * 60;
  return [perMinute.toFixed(perMinute < 9.95 ? 1 : 0), "rounds/min"];
}

function showWithUnit(name, [figure, unit]) {
  show(name, figure);
  const element = document.querySelector(`[data-unit="${name}"]`);
  if (element.textContent !== unit) element.textContent = unit;
}

function fill(meter, value, most, said) {
  const known = Number.isFinite(value) && Number.isFinite(most) && most > 0;
  const share = known ? Math.min(1, value / most) : 0;
  meter.setAttribute("aria-valuemin", "0");
  meter.setAttribute("aria-valuemax", known ? String(most) : "1");
  meter.setAttribute("aria-valuenow", known ? String(Math.min(value, most)) : "0");
  meter.setAttribute("aria-valuetext", known ? said : "unknown");
  meter.classList.toggle("full", known && value >= most);
  const wanted = share > 0 ? `max(2px, ${(100 * share).toFixed(2)}%)` : "0";
  meter.firstElementChild.style.width = wanted;
}

const raised = (power) => [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");

function ringOf(dim) {
  if (!Number.isFinite(dim)) return textOf(dim);
  const power = Math.log2(dim);
  return Number.isInteger(power) ? `N = 2${raised(power)} = ${count.format(dim)}` : `N = ${count.format(dim)}`;
}

function showLearns(rows) {
  const body = find("learns");
  const wanted = JSON.stringify(rows);
  if (body.dataset.shown === wanted) return;
  body.dataset.shown = wanted;
  body.replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    line.setAttribute("role", "row");
    for (const [name, label] of [["who", "who"], ["learns", "learns"], ["never", "does not learn, if all follow the protocol"]]) {
      const cell = document.createElement(name === "who" ? "th" : "td");
      cell.setAttribute("role", name === "who" ? "rowheader" : "cell");
      if (name === "who") cell.scope = "row";
      cell.dataset.label = label;
      cell.textContent = textOf(row?.[name]);
      line.append(cell);
    }
    return line;
  }));
  find("learns-section").hidden = rows.length === 0;
}

function showNotices(tenant) {
  const failed = toneOf(tenant) === "failed";
  find("simulated").hidden = !tenant.simulated;
  find("would").hidden = !tenant.simulated;
  find("failed").hidden = !failed;
  find("starting").hidden = tenant.state !== "starting";
  find("due").hidden = !tenant.rotation_due;
  find("past").hidden = !(tenant.round >= tenant.horizon && tenant.horizon > 0);
  show("attempt", has(tenant.last_error) ? `The last attempt ended: ${tenant.last_error}` : "");
  show("failure", has(tenant.last_error) ? String(tenant.last_error) : "The server's log says why.");
}

function showNumbers(tenant) {
  showWithUnit("p50", duration(tenant.latency_ms?.p50));
  showWithUnit("p95", duration(tenant.latency_ms?.p95));
  showWithUnit("rate", throughput(tenant.rounds_per_second));
  const counts = ["waiting", "open_rounds", "enrolled", "round", "horizon", "samples", "held", "updates",
    "rejected", "batch", "bits", "bit_budget", "dim", "arms"];
  for (const name of counts) show(name, numberOf(tenant[name]));
  fill(find("horizon-meter"), tenant.round, tenant.horizon, `${numberOf(tenant.round)} of ${numberOf(tenant.horizon)} rounds`);
  fill(find("bits-meter"), tenant.bits, tenant.bit_budget, `${numberOf(tenant.bits)} of ${numberOf(tenant.bit_budget)} bits`);
}

// Show everything of a tenant's report but its history.
export function showTenant(tenant) {
  const simulated = Boolean(tenant.simulated);
  show("name", textOf(tenant.name));
  show("state", stateOf(tenant));
  find("state").className = `state ${toneOf(tenant)}`;
  const security = has(tenant.security) ? `${tenant.security} bits` : ABSENT;
  show("kind", simulated ? "simulated, not encrypted" : `${named(ENGINES, tenant.engine)}, ${security}`);
  showNotices(tenant);
  showNumbers(tenant);
  show("rotation", tenant.rotation_due ? "Rotation is due." : "Rotation is not due.");
  show("last_error", has(tenant.last_error) ? String(tenant.last_error) : "None.");
  document.querySelector(".error").classList.toggle("some", has(tenant.last_error));
  show("engine", named(ENGINES, tenant.engine));
  show("security", simulated ? "none: simulated" : security);
  show("ring_dim", ringOf(tenant.ring_dim));
  show("keys", named(KEYS, tenant.keys));
  show("refresh", named(REFRESHES, tenant.refresh));
  show("key", textOf(tenant.key));
  show("fingerprint", textOf(tenant.fingerprint));
  showLearns(Array.isArray(tenant.learns) ? tenant.learns : []);
}
