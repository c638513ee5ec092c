"use strict";

const COLORS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#7f7f7f"];
const FIRST = ["train/loss", "eval/loss", "eval/top1", "train/learning_rate", "train/tokens_per_s", "train/images_per_s", "train/grad_norm",
  "train/balance_loss", "train/activated_heads", "train/mfu"];
const AT_ONCE = 12; // runs that are shown before the user chooses
const byId = (id) => document.getElementById(id);

const state = {
  runs: [], shown: new Set(), chosen: new Set(FIRST), names: [],
  from: 0, to: null, last: 1, // the steps that are shown; to null: up to the newest
  curves: {}, loaded: 1, revision: "", charts: new Map(), hover: null,
};

async function ask(path, parameters) {
  const query = new URLSearchParams(parameters);
  const answer = await fetch(`${path}?${query}`);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body;
}

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function say(text) { byId("message").textContent = text; }

// Runs.

const runOf = (id) => state.runs[id];

/// Colours by run. With bands, runs that differ in seed alone have one.
let colors = new Map();
function updateColors() {
  const byGroup = new Map(), bands = byId("bands").checked;
  colors = new Map();
  for (const id of state.shown) {
    const key = (bands && runOf(id).group) || id;
    if (!byGroup.has(key)) byGroup.set(key, COLORS[byGroup.size % COLORS.length]);
    colors.set(id, byGroup.get(key));
  }
}

const colorOf = (ids) => colors.get(ids[0]) ?? "transparent";

function labelOf(ids) {
  const run = runOf(ids[0]);
  if (ids.length === 1) return run.name;
  return `${run.differs || run.name} (${ids.length} seeds)`;
}

function factOf(run) {
  const steps = run.steps ? `${run.step} of ${run.steps}` : `step ${run.step}`;
  const numbers = Object.entries(run.training).map(([key, value]) => `${key} ${short(value)}`);
  return [run.state, steps, ...numbers, run.differs, run.seed && `seed ${run.seed}`].filter(Boolean).join(", ");
}

function filtered() {
  const words = byId("filter").value.toLowerCase();
  return state.runs.filter((run) => `${run.name} ${run.differs}`.toLowerCase().includes(words));
}

const rows = new Map();

function rowOf(run) {
  if (!rows.has(run.id)) {
    const box = make("input", { type: "checkbox" });
    box.setAttribute("aria-label", run.name);
    box.onchange = () => { box.checked ? state.shown.add(run.id) : state.shown.delete(run.id); shownChanged(); };
    const name = make("span", { className: "name", textContent: run.name });
    name.onclick = () => chooseRun(run.id);
    rows.set(run.id, { box, dot: make("span", { className: "dot" }), name, fact: make("span", { className: "fact" }) });
    const row = rows.get(run.id);
    row.item = make("li", {}, box, row.dot, name, row.fact);
  }
  const row = rows.get(run.id);
  row.box.checked = state.shown.has(run.id);
  row.dot.style.background = colorOf([run.id]);
  row.fact.textContent = factOf(run);
  return row.item;
}

function showRuns() {
  const found = filtered();
  updateColors();
  byId("runs").replaceChildren(...found.map(rowOf));
  byId("count").textContent = `${found.length} of ${state.runs.length}`;
  const select = byId("run");
  if (select.options.length !== state.runs.length)
    select.replaceChildren(...state.runs.map((run) => make("option", { value: run.id, textContent: run.name })));
}

function shownChanged() {
  state.revision = "";
  state.curves = {};
  showRuns();
  askCurves();
}

async function askRuns() {
  const first = state.runs.length === 0;
  state.runs = (await ask("/api/runs")).runs;
  if (first) {
    for (const run of state.runs.slice(0, AT_ONCE)) state.shown.add(run.id);
    shownChanged();
    if (state.runs.length > 0) chooseRun(state.runs[0].id);
  }
  showRuns();
}

// Curves.

const windowTo = () => state.to ?? Math.max(state.last, 1);
let asking = false, askAgain = false;

/// Asks for the shown steps and as many to either side, so that there is something to see while the view moves.
async function askCurves() {
  if (asking) { askAgain = true; return; }
  if (state.shown.size === 0) { state.curves = {}; return showCharts(); }
  asking = true;
  const width = windowTo() - state.from;
  const whole = state.from <= 0 && state.to === null;
  const [chart] = state.charts.values(), columns = Math.min(chart ? plotWidth(chart) : 400, 1300) * (whole ? 1 : 3);
  try {
    const answer = await ask("/api/curves", {
      runs: [...state.shown].join(","), names: [...state.chosen].join(","), bands: byId("bands").checked ? 1 : 0, seen: state.revision,
      columns: Math.round(columns), from: whole ? 0 : Math.max(state.from - width, 0), ...(whole ? {} : { to: windowTo() + width }),
    });
    state.last = answer.last_step;
    state.revision = String(answer.revision);
    if (answer.curves) {
      state.curves = answer.curves;
      const runs = Object.values(answer.runs);
      state.loaded = runs.reduce((sum, run) => sum + run.loaded, 0) / runs.length;
      showNames([...new Set(runs.flatMap((run) => run.names))].sort());
    }
    say(state.loaded < 0.999 ? `reading: ${Math.round(100 * state.loaded)}%` : "");
    showCharts();
  } catch (error) {
    say(String(error.message || error));
  } finally {
    asking = false;
    if (askAgain) { askAgain = false; askCurves(); }
  }
}

function showNames(names) {
  if (names.join() === state.names.join()) return;
  state.names = names;
  byId("names").replaceChildren(...names.map((name) => {
    const box = make("input", { type: "checkbox", checked: state.chosen.has(name) });
    box.onchange = () => { box.checked ? state.chosen.add(name) : state.chosen.delete(name); state.revision = ""; askCurves(); };
    return make("label", {}, box, ` ${name}`);
  }));
}

function showCharts() {
  const wanted = [...state.chosen].filter((name) => state.curves[name]?.length);
  for (const [name, chart] of state.charts) {
    if (wanted.includes(name)) continue;
    chart.figure.remove();
    state.charts.delete(name);
  }
  for (const name of wanted) if (!state.charts.has(name)) state.charts.set(name, newChart(name));
  byId("charts").replaceChildren(...wanted.map((name) => state.charts.get(name).figure));
  drawSoon();
}

let drawing = false;
function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; for (const chart of state.charts.values()) drawChart(chart); });
}

const LEFT = 56, BOTTOM = 20, TOP = 6, RIGHT = 8;

function newChart(name) {
  const canvas = make("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", name);
  const chart = { name, canvas, figure: make("figure", {}, make("figcaption", { textContent: name }), canvas), dragged: null };
  canvas.onwheel = (event) => { event.preventDefault(); zoom(chart, event); };
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); chart.dragged = event.clientX; };
  canvas.onpointerup = () => { chart.dragged = null; };
  canvas.onpointermove = (event) => (chart.dragged === null ? hover(chart, event) : pan(chart, event));
  canvas.onpointerleave = () => { state.hover = null; byId("tip").hidden = true; drawSoon(); };
  canvas.ondblclick = resetWindow;
  return chart;
}

const plotWidth = (chart) => Math.max(chart.canvas.clientWidth - LEFT - RIGHT, 1);
const stepAt = (chart, event) => state.from + (event.offsetX - LEFT) / plotWidth(chart) * (windowTo() - state.from);

let waiting = 0;
function moveTo(from, to) {
  const most = Math.max(state.last, 1), width = Math.min(Math.max(to - from, 1), most);
  state.from = Math.min(Math.max(from, 0), most - width);
  state.to = width >= most ? null : state.from + width;
  state.revision = "";
  drawSoon();
  clearTimeout(waiting);
  waiting = setTimeout(askCurves, 60);
}

function zoom(chart, event) {
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const shift = event.deltaX / plotWidth(chart) * (windowTo() - state.from);
    return moveTo(state.from + shift, windowTo() + shift);
  }
  const at = stepAt(chart, event), factor = Math.exp(event.deltaY * 0.002);
  moveTo(at - (at - state.from) * factor, at + (windowTo() - at) * factor);
}

function pan(chart, event) {
  const shift = (chart.dragged - event.clientX) / plotWidth(chart) * (windowTo() - state.from);
  chart.dragged = event.clientX;
  moveTo(state.from + shift, windowTo() + shift);
}

function resetWindow() { state.from = 0; state.to = null; state.revision = ""; askCurves(); }

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)}k`;
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return String(+value.toPrecision(4));
}

function smoothed(values) {
  const keep = +byId("smooth").value;
  if (keep === 0) return values;
  let mean = 0, weight = 0;
  return values.map((value) => {
    mean = keep * mean + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return mean / weight;
  });
}

/// The lists of a curve that are drawn: its line, and the edges of its band.
function linesOf(curve) {
  return curve.values ? [smoothed(curve.values)] : [curve.mean, curve.low, curve.high];
}

/// Round numbers between two others.
function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
}

function rangeOf(curves, from, to, logarithmic) {
  let low = Infinity, high = -Infinity;
  for (const { steps, lines } of curves) {
    for (const values of lines) {
      for (let i = 0; i < steps.length; i++) {
        if (steps[i] < from || steps[i] > to || (logarithmic && values[i] <= 0)) continue;
        if (values[i] < low) low = values[i];
        if (values[i] > high) high = values[i];
      }
    }
  }
  if (low > high) return [0, 1];
  const pad = (high - low || Math.abs(high) || 1) * 0.04;
  return logarithmic ? [low, high > low ? high : low * 1.1] : [low - pad, high + pad];
}

function drawChart(chart) {
  const { canvas } = chart, box = canvas.getBoundingClientRect();
  if (box.bottom < 0 || box.top > innerHeight) return;
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (width === 0) return;
  if (canvas.width !== Math.round(width * scale)) { canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); }
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  const from = state.from, to = windowTo(), logarithmic = byId("log").checked;
  const curves = (state.curves[chart.name] || []).map((curve) => ({ ...curve, lines: linesOf(curve) }));
  const [low, high] = rangeOf(curves, from, to, logarithmic);
  const inner = width - LEFT - RIGHT, tall = height - TOP - BOTTOM;
  const x = (step) => LEFT + (step - from) / (to - from) * inner;
  const place = logarithmic ? (value) => Math.log(value / low) / Math.log(high / low) : (value) => (value - low) / (high - low);
  const y = (value) => TOP + (1 - place(value)) * tall;
  drawAxes(g, { x, y, from, to, low, high, logarithmic, width, height });
  g.save();
  g.beginPath();
  g.rect(LEFT, TOP, inner, tall);
  g.clip();
  for (const curve of curves) drawCurve(g, curve, x, y, logarithmic);
  g.restore();
  chart.curves = curves;
  if (state.hover !== null) {
    g.fillStyle = "#8888";
    g.fillRect(x(state.hover), TOP, 1, tall);
  }
}

function drawAxes(g, { x, y, from, to, low, high, logarithmic, width, height }) {
  g.font = "10px system-ui, sans-serif";
  g.fillStyle = "#888";
  g.strokeStyle = "#8883";
  g.lineWidth = 1;
  g.textAlign = "right";
  g.textBaseline = "middle";
  const values = logarithmic ? ticks(Math.log10(low), Math.log10(high), 5).map((at) => 10 ** at) : ticks(low, high, 5);
  g.beginPath();
  for (const value of values) {
    g.moveTo(LEFT, y(value));
    g.lineTo(width - RIGHT, y(value));
    g.fillText(short(value), LEFT - 4, y(value));
  }
  g.textAlign = "center";
  g.textBaseline = "top";
  for (const step of ticks(from, to, width / 90)) {
    const text = short(step), most = width - g.measureText(text).width / 2;
    g.fillText(text, Math.min(x(step), most), height - BOTTOM + 4);
  }
  g.stroke();
}

function drawCurve(g, curve, x, y, logarithmic) {
  const { steps, lines } = curve, [values, lows, highs] = lines;
  g.strokeStyle = g.fillStyle = colorOf(curve.runs);
  if (lows) {
    g.globalAlpha = 0.2;
    g.beginPath();
    for (let i = 0; i < steps.length; i++) g.lineTo(x(steps[i]), y(highs[i]));
    for (let i = steps.length - 1; i >= 0; i--) g.lineTo(x(steps[i]), y(lows[i]));
    g.fill();
    g.globalAlpha = 1;
  }
  const first = Math.max(nearest(steps, state.from) - 1, 0), last = Math.min(nearest(steps, windowTo()) + 2, steps.length);
  if (last - first > x(windowTo()) - x(state.from)) return drawColumns(g, steps, values, first, last, x, y, logarithmic);
  g.lineWidth = 1.3;
  g.lineJoin = "bevel";
  g.beginPath();
  for (let i = first; i < last; i++) if (!logarithmic || values[i] > 0) g.lineTo(x(steps[i]), y(values[i]));
  g.stroke();
  if (last - first > 60) return;
  for (let i = first; i < last; i++) g.fillRect(x(steps[i]) - 1.5, y(values[i]) - 1.5, 3, 3);
}

/// A line with more points than pixels, as a bar for each column of pixels: many times as fast as a path.
function drawColumns(g, steps, values, first, last, x, y, logarithmic) {
  let column = -1, low = 0, high = 0, before = 0;
  const bar = () => { if (column >= 0) g.fillRect(column, low, 1, Math.max(high - low, 1.3)); };
  for (let i = first; i < last; i++) {
    if (logarithmic && values[i] <= 0) continue;
    const at = Math.round(x(steps[i])), place = y(values[i]);
    if (at !== column) {
      bar();
      low = high = column >= 0 && at === column + 1 ? before : place;
      column = at;
    }
    low = Math.min(low, place);
    high = Math.max(high, place);
    before = place;
  }
  bar();
}

function nearest(steps, step) {
  let low = 0, high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1; else high = middle;
  }
  return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
}

function hover(chart, event) {
  const at = stepAt(chart, event), lines = [];
  state.hover = Math.min(Math.max(at, state.from), windowTo());
  for (const curve of (chart.curves || []).slice(0, 12)) {
    const i = nearest(curve.steps, at), dot = make("i");
    if (i < 0) continue;
    dot.style.background = colorOf(curve.runs);
    const spread = curve.high ? ` ± ${short(curve.high[i] - curve.mean[i])}` : "";
    lines.push(make("div", {}, dot, `${short(curve.lines[0][i])}${spread} at ${curve.steps[i]}: ${labelOf(curve.runs)}`));
  }
  const tip = byId("tip");
  tip.replaceChildren(...lines);
  tip.hidden = lines.length === 0;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 430)}px`;
  tip.style.top = `${event.clientY + 14}px`;
  drawSoon();
}

// Heads.

const heads = { steps: [], layers: [], playing: false };
const selected = () => byId("run").value;

async function askHeads() {
  const answer = await ask("/api/heads", { run: selected() });
  const slider = byId("frame"), atEnd = +slider.value >= heads.steps.length - 1;
  heads.steps = answer.steps;
  byId("heads").hidden = answer.steps.length === 0;
  slider.max = Math.max(answer.steps.length - 1, 0);
  if (atEnd) slider.value = slider.max;
  if (answer.steps.length > 0) await showFrame();
}

async function showFrame() {
  const answer = await ask("/api/heads", { run: selected(), step: heads.steps[+byId("frame").value] });
  heads.layers = answer.layers;
  byId("step").textContent = `step ${answer.step}`;
  drawHeads();
}

/// From dark blue by green to yellow, as lightness rises.
function heat(share) {
  return `hsl(${250 - 200 * share}, 70%, ${18 + 55 * share}%)`;
}

function drawHeads() {
  const most = Math.max(...heads.layers.map((layer) => layer.length), 1), top = Math.max(...heads.layers.flat(), 1e-6);
  const size = Math.max(6, Math.min(24, Math.floor(900 / most))), label = 44;
  const canvas = byId("map"), scale = window.devicePixelRatio || 1;
  const width = Math.max(label + most * size, 320), height = heads.layers.length * size + 16;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.font = "10px system-ui, sans-serif";
  heads.layers.forEach((layer, row) => {
    g.fillStyle = "#888";
    g.fillText(`layer ${row}`, 0, row * size + size / 2 + 3);
    layer.forEach((share, column) => {
      g.fillStyle = heat(share / top);
      g.fillRect(label + column * size, row * size, size - 1, size - 1);
    });
  });
  g.fillStyle = "#888";
  g.fillText(`routed heads; brightest: ${(100 * top).toFixed(1)}% of the tokens`, label, heads.layers.length * size + 12);
  canvas.onpointermove = (event) => {
    const row = Math.floor(event.offsetY / size), column = Math.floor((event.offsetX - label) / size);
    const share = heads.layers[row]?.[column];
    byId("share").textContent = share === undefined ? "" : `layer ${row}, routed head ${column}: ${(100 * share).toFixed(1)}% of the tokens`;
  };
}

function play() {
  heads.playing = !heads.playing;
  byId("play").textContent = heads.playing ? "stop" : "play";
  const slider = byId("frame");
  if (heads.playing && slider.value === slider.max) slider.value = 0;
  const next = async () => {
    if (!heads.playing) return;
    await showFrame();
    if (+slider.value >= +slider.max) return play();
    slider.value = +slider.value + 1;
    setTimeout(next, 80);
  };
  next();
}

// Samples and traces.

let filesSeen = "";

async function askFiles() {
  const run = selected(), { files } = await ask("/api/files", { run });
  const key = run + JSON.stringify(files);
  if (key === filesSeen) return;
  filesSeen = key;
  const path = (file) => `/files/${run}/${file.name}`, of = (kind) => files.filter((file) => file.kind === kind);
  const parts = [];
  for (const file of of("text")) parts.push(make("h3", { textContent: file.name }), make("pre", { textContent: await (await fetch(path(file))).text() }));
  const images = of("image");
  if (images.length > 0) parts.push(make("h3", { textContent: "What the model drew" }));
  for (const file of images.slice(-24)) {
    const step = +file.name.match(/\d+/)[0];
    parts.push(make("figure", {}, make("img", { src: path(file), alt: file.name, loading: "lazy" }), make("figcaption", { textContent: `step ${step}` })));
  }
  byId("samples").replaceChildren(...parts);
  byId("traces").replaceChildren(...of("trace").map((file) => traceOf(file, path(file))));
}

function traceOf(file, path) {
  const button = make("button", { textContent: "draw" }), place = make("div");
  button.onclick = async () => {
    const trace = await (await fetch(path)).json();
    place.replaceChildren(newTrace((trace.traceEvents || trace).filter((event) => event.ph === "X")));
  };
  return make("div", {}, make("h3", {}, "Trace of steps: ", make("a", { href: path, download: file.name, textContent: file.name }), " "), button, place);
}

/// Bars by thread and depth; the wheel zooms, a drag moves.
function newTrace(events) {
  events.sort((a, b) => a.ts - b.ts || b.dur - a.dur);
  const open = new Map(), lanes = new Map();
  let begin = Infinity, end = 0;
  for (const event of events) {
    const stack = open.get(event.tid) || [];
    while (stack.length > 0 && stack[stack.length - 1] <= event.ts) stack.pop();
    event.lane = `${event.tid}/${stack.length}`;
    stack.push(event.ts + event.dur);
    open.set(event.tid, stack);
    lanes.set(event.lane, 0);
    begin = Math.min(begin, event.ts);
    end = Math.max(end, event.ts + event.dur);
  }
  [...lanes.keys()].sort().forEach((lane, row) => lanes.set(lane, row));
  const canvas = make("canvas"), tall = 18;
  canvas.style.height = `${lanes.size * tall}px`;
  let from = begin, to = end, dragged = null;
  const draw = () => {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = lanes.size * tall * scale;
    const g = canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.font = "10px system-ui, sans-serif";
    const names = new Map();
    for (const event of events) {
      const left = (event.ts - from) / (to - from) * width, wide = event.dur / (to - from) * width;
      if (left > width || left + wide < 0) continue;
      if (!names.has(event.name)) names.set(event.name, names.size);
      g.fillStyle = COLORS[names.get(event.name) % COLORS.length];
      g.fillRect(left, lanes.get(event.lane) * tall, Math.max(wide, 0.5), tall - 2);
      g.fillStyle = "#fff";
      if (wide > 40) g.fillText(event.name, Math.max(left, 0) + 3, lanes.get(event.lane) * tall + 11, wide - 6);
    }
  };
  const move = (low, high) => { from = low; to = Math.max(high, low + 1); requestAnimationFrame(draw); };
  canvas.onwheel = (event) => {
    event.preventDefault();
    const at = from + event.offsetX / canvas.clientWidth * (to - from), factor = Math.exp(event.deltaY * 0.002);
    move(at - (at - from) * factor, at + (to - at) * factor);
  };
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); dragged = event.clientX; };
  canvas.onpointerup = () => { dragged = null; };
  canvas.onpointermove = (event) => {
    if (dragged === null) return;
    const shift = (dragged - event.clientX) / canvas.clientWidth * (to - from);
    dragged = event.clientX;
    move(from + shift, to + shift);
  };
  requestAnimationFrame(draw);
  return canvas;
}

function chooseRun(id) {
  byId("run").value = id;
  heads.steps = []; // the slider begins at the newest step
  showRun();
}

async function showRun() {
  try {
    await Promise.all([askHeads(), askFiles()]);
  } catch (error) {
    say(String(error.message || error));
  }
}

// The page.

byId("filter").oninput = showRuns;
byId("all").onclick = () => { state.shown = new Set(filtered().slice(0, 200).map((run) => run.id)); shownChanged(); };
byId("none").onclick = () => { state.shown.clear(); shownChanged(); };
byId("bands").onchange = shownChanged;
byId("log").onchange = byId("smooth").oninput = drawSoon;
byId("reset").onclick = resetWindow;
byId("run").onchange = () => chooseRun(selected());
byId("frame").oninput = showFrame;
byId("play").onclick = play;
window.onresize = drawSoon;
document.querySelector("main").onscroll = drawSoon;

/// One question after the other, more often while runs are being read.
async function follow(action, seconds) {
  try {
    await action();
  } catch (error) {
    say("moh watch does not answer; is it still running?");
  }
  setTimeout(() => follow(action, seconds), 1000 * seconds());
}

follow(askRuns, () => 2);
follow(askCurves, () => (state.loaded < 0.999 ? 0.15 : document.hidden ? 5 : 1));
follow(async () => { if (selected() !== "" && !heads.playing) await showRun(); }, () => 3);
