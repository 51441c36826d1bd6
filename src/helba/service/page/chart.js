// Charts over time as SVG, drawn anew for the width that is there.

const SPACE = "http://www.w3.org/2000/svg";
const LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 20;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

export const timeOf = (point) => clock.format(new Date(point.at));

function make(parent, name, attributes, text) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// The least round number that is not below: an axis ends there.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.999);
}

const minuteOf = (point) => {
  const time = new Date(point.at);
  return time.getHours() * 60 + time.getMinutes();
};

// A step of the axis of time, in minutes, that leaves each label some 60 pixels.
function ticksEvery(points, room) {
  if (points.length < 2) return 1;
  const span = (new Date(points.at(-1).at) - new Date(points[0].at)) / 60000;
  return [1, 2, 5, 10, 15, 20, 30, 60, 120, 240].find((step) => (room * step) / span >= 60) ?? 480;
}

// Neighbouring points that have a value, as [x, y] pairs: a gap in the data is a gap in the line.
function runsOf(points, key, place) {
  const runs = [[]];
  points.forEach((point, n) => {
    if (Number.isFinite(point[key])) runs.at(-1).push(place(n, point[key]));
    else if (runs.at(-1).length) runs.push([]);
  });
  return runs.filter((run) => run.length);
}

const pathOf = (run) => "M" + run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

function drawSeries(svg, { points, series, place, width, base }) {
  for (const { key, kind } of series) {
    if (kind === "bar") {
      points.forEach((point, n) => {
        if (!(point[key] > 0)) return;
        const [x, y] = place(n, point[key]);
        make(svg, "rect", { class: `bar ${key}`, x: x - width / 2, y, width, height: base - y });
      });
      continue;
    }
    for (const run of runsOf(points, key, place)) {
      const last = run.at(-1);
      const drawn = run.length > 1 ? run : [[last[0] - 1, last[1]], [last[0] + 1, last[1]]];
      if (kind === "area") {
        const path = `${pathOf(drawn)}L${drawn.at(-1)[0]} ${base}L${drawn[0][0]} ${base}Z`;
        make(svg, "path", { class: `area ${key}`, d: path });
      }
      make(svg, "path", { class: `line ${key}`, d: pathOf(drawn) });
    }
  }
}

// Draw `series` ({key, kind: "area" | "line" | "bar"}) of the points, with a cursor at one of them.
export function drawChart(svg, { points, series, label, least = 1, cursor = null }) {
  const width = Math.max(svg.clientWidth, 160), height = Math.max(svg.clientHeight, 80);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", label);
  const values = points.flatMap((p) => series.map(({ key }) => p[key]).filter(Number.isFinite));
  const most = roundUp(Math.max(least, ...values));
  const base = height - BOTTOM, room = width - LEFT - RIGHT;
  const step = room / Math.max(points.length, 1);
  const across = (n) => LEFT + (n + 0.5) * step;
  const place = (n, value) => [across(n), base - (value / most) * (base - TOP)];
  for (const share of most < 2 ? [0, 1] : [0, 0.5, 1]) {
    const y = Math.round(base - share * (base - TOP)) + 0.5;
    make(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y });
    make(svg, "text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, whole.format(share * most));
  }
  const every = ticksEvery(points, room);
  points.forEach((point, n) => {
    if (minuteOf(point) % every || across(n) < LEFT + 12 || across(n) > width - 16) return;
    make(svg, "line", { class: "grid", x1: across(n), x2: across(n), y1: base, y2: base + 4 });
    make(svg, "text", { x: across(n), y: height - 3, "text-anchor": "middle" }, timeOf(point));
  });
  drawSeries(svg, { points, series, place, width: Math.max(2, Math.min(10, step * 0.7)), base });
  if (cursor !== null && cursor < points.length) {
    const x = Math.round(across(cursor)) + 0.5;
    make(svg, "line", { class: "cursor", x1: x, x2: x, y1: TOP - 4, y2: base });
  }
}

// Which point lies below a place on the screen; null beside the chart.
export function pointAt(svg, clientX, count) {
  const box = svg.getBoundingClientRect();
  const step = (box.width - LEFT - RIGHT) / Math.max(count, 1);
  const n = Math.floor((clientX - box.left - LEFT) / step);
  return n >= 0 && n < count ? n : null;
}
