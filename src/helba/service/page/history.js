// The last hour of a tenant: three charts with one cursor, and the same as a table.

import { drawChart, pointAt, timeOf } from "./chart.js";
import { find } from "./panel.js";

const count = new Intl.NumberFormat();
const CHARTS = [
  { id: "chart-rounds", series: [{ key: "rounds", kind: "area" }, { key: "rewards", kind: "line" }], least: 4 },
  { id: "chart-updates", series: [{ key: "updates", kind: "bar" }], least: 2 },
  { id: "chart-latency", series: [{ key: "latency", kind: "line" }], least: 10 },
];

let points = [];
let minutes = 60;
let cursor = null;

const totalOf = (key) => points.reduce((sum, point) => sum + (point[key] || 0), 0);
const counted = (number, one) => `${count.format(number)} ${one}${number === 1 ? "" : "s"}`;
const milliseconds = (value) => (Number.isFinite(value) ? `${count.format(Math.round(value))} ms` : "no round");

function sayOf(point) {
  const parts = ["round", "reward", "update"].map((name) => counted(point[`${name}s`] || 0, name));
  return `${timeOf(point)}: ${parts.join(", ")}, ${milliseconds(point.latency)}`;
}

function totals() {
  const parts = ["round", "reward", "update"].map((name) => counted(totalOf(`${name}s`), name));
  return `In all: ${parts.join(", ")}`;
}

function draw() {
  const known = points.length > 0;
  find("charts").hidden = !known;
  find("as-table").hidden = !known;
  find("no-history").hidden = known;
  if (!known) return;
  if (cursor !== null && cursor >= points.length) cursor = null;
  find("readout").textContent = cursor === null ? totals() : sayOf(points[cursor]);
  const labels = [
    `Rounds and rewards. ${totals()}.`,
    `Updates of the model: ${counted(totalOf("updates"), "update")}.`,
    "Mean time of a round, in milliseconds.",
  ];
  CHARTS.forEach(({ id, series, least }, n) => {
    drawChart(find(id), { points, series, least, cursor, label: `Last ${minutes} minutes. ${labels[n]}` });
  });
  if (find("as-table").open) tabulate();
}

function tabulate() {
  const cells = (point) => [timeOf(point), count.format(point.rounds || 0), count.format(point.rewards || 0),
    count.format(point.updates || 0), Number.isFinite(point.latency) ? count.format(Math.round(point.latency)) : "–"];
  find("rows").replaceChildren(...points.toReversed().map((point) => {
    const row = document.createElement("tr");
    row.append(...cells(point).map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return row;
  }));
}

// Show a tenant's history as the server tells it.
export function showHistory(history) {
  minutes = history.minutes ?? 60;
  points = (Array.isArray(history.points) ? history.points : []).map((p) => ({ ...p, latency: p.latency_ms }));
  find("minutes").textContent = String(minutes);
  const seconds = history.step_seconds ?? 60;
  const step = seconds === 60 ? "a minute" : `in ${seconds} seconds`;
  for (const element of document.querySelectorAll("[data-step]")) element.textContent = step;
  find("no-history").textContent = "Nothing was recorded yet.";
  draw();
}

// Show that there is none, and why.
export function clearHistory(reason) {
  points = [];
  cursor = null;
  find("readout").textContent = "";
  find("no-history").textContent = reason;
  draw();
}

function move(to) {
  cursor = to;
  draw();
}

function steer(event) {
  const last = points.length - 1;
  const from = cursor ?? last + (event.key === "ArrowLeft" ? 1 : 0);
  const goals = { ArrowLeft: Math.max(0, from - 1), ArrowRight: Math.min(last, from + 1), Home: 0, End: last, Escape: null };
  if (!Object.hasOwn(goals, event.key) || event.target !== find("charts")) return;
  event.preventDefault();
  move(goals[event.key]);
}

// Follow mouse, finger and arrow keys, and the width of the window.
export function listen() {
  const charts = find("charts");
  const follow = (event) => move(pointAt(find("chart-rounds"), event.clientX, points.length));
  charts.addEventListener("pointermove", follow);
  charts.addEventListener("pointerdown", follow);
  charts.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") move(null); // a finger that is lifted leaves what it found
  });
  charts.addEventListener("keydown", steer);
  charts.addEventListener("focus", () => find("readout").setAttribute("aria-live", "polite"));
  charts.addEventListener("blur", () => find("readout").setAttribute("aria-live", "off"));
  find("as-table").addEventListener("toggle", draw);
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(charts);
}
