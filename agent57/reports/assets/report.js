"use strict";
// Draws the sections of the payload. A chart is redrawn from its description whenever its width changes.
(() => {
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const tip = document.getElementById("tip");
  const page = document.getElementById("page");
  const SVG = "http://www.w3.org/2000/svg";

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const draw = (parent, tag, attributes = {}, text = null) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== null) element.textContent = text;
    parent.append(element);
    return element;
  };
  const colour = (index) => `var(--c${index % 8})`;
  const short = (value) => {
    const size = Math.abs(value);
    for (const [unit, letter] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]])
      if (size >= unit) return `${+(value / unit).toPrecision(4)}${letter}`;
    return size !== 0 && size < 1e-3 ? value.toExponential(1) : `${+value.toPrecision(4)}`;
  };
  const whole = (value) => Math.round(value).toLocaleString("en");

  // Axes ------------------------------------------------------------------------------------------
  const niceTicks = (low, high, count) => {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= raw) * power;
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
    return ticks;
  };
  const logTicks = (low, high) => {
    const ticks = [], first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const stride = Math.max(1, Math.ceil((last - first) / 6));
    for (let power = first; power <= last; power += stride) ticks.push(10 ** power);
    const inside = ticks.filter((t) => t >= low && t <= high);
    return inside.length > 1 ? inside : [low, high];
  };
  const scale = (low, high, from, to, isLog) => {
    const f = isLog ? Math.log : (v) => v, a = f(low), b = f(high);
    const apply = (v) => from + ((f(v) - a) / (b - a || 1)) * (to - from);
    return apply;
  };
  const nearest = (points, x) => {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < x) low = middle; else high = middle;
    }
    return x - points[low][0] < points[high][0] - x ? points[low] : points[high];
  };

  const showTip = (event, rows) => {
    tip.replaceChildren(...rows);
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), gap = 14;
    let left = event.clientX + gap, top = event.clientY + gap;
    if (left + box.width > innerWidth - 6) left = Math.max(6, event.clientX - box.width - gap);
    if (top + box.height > innerHeight - 6) top = Math.max(6, event.clientY - box.height - gap);
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  };
  const tipRow = (text, dot = null) => {
    const row = make("div");
    if (dot) { const mark = make("i"); mark.style.background = dot; row.append(mark); }
    row.append(text);
    return row;
  };
  const hideTip = () => { tip.hidden = true; };

  // Line charts -----------------------------------------------------------------------------------
  const lineChart = (chart, svg, width, hidden) => {
    const height = chart.is_large ? Math.min(380, Math.max(240, width * 0.42)) : 210;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    svg.replaceChildren();
    const lines = chart.series.filter((s) => !hidden.has(s.name) && s.points.length);
    const references = (chart.references || []).filter((r) => !hidden.has(r.name));
    const all = lines.flatMap((s) => [s.points, s.low || [], s.high || []].flat());
    const isLog = Boolean(chart.is_log) && all.every(([, y]) => y >= 0) && all.some(([, y]) => y > 0);
    const floor = isLog ? Math.min(...all.map(([, y]) => y).filter((y) => y > 0)) : -Infinity;
    const level = (y) => Math.max(y, floor);
    const ys = [...all.map(([, y]) => level(y)), ...references.map((r) => r.value), ...(chart.y_range || [])];
    const xs = all.map(([x]) => x);
    if (!ys.length) { draw(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing to show yet"); return; }
    let low = Math.min(...ys), high = Math.max(...ys);
    if (low === high) { const pad = Math.abs(low) * 0.1 || 1; if (isLog) { low /= 2; high *= 2; } else { low -= pad; high += pad; } }
    else if (!isLog && !chart.y_range) { const pad = (high - low) * 0.05; if (low < 0 || low - pad > 0) low -= pad; high += pad; }
    const xLow = xs.length ? Math.min(0, ...xs) : 0, xHigh = xs.length ? Math.max(...xs) : 1;
    const edge = { left: 52, right: chart.hns ? 46 : 14, top: 20, bottom: 36 };
    const X = scale(xLow, xHigh, edge.left, width - edge.right);
    const Y = scale(low, high, height - edge.bottom, edge.top, isLog);

    for (const tick of isLog ? logTicks(low, high) : niceTicks(low, high, height / 55)) {
      draw(svg, "line", { class: "grid-line", x1: edge.left, x2: width - edge.right, y1: Y(tick), y2: Y(tick) });
      draw(svg, "text", { x: edge.left - 6, y: Y(tick) + 4, "text-anchor": "end" }, short(tick));
    }
    for (const tick of niceTicks(xLow, xHigh, Math.max(2, width / 110)))
      draw(svg, "text", { x: X(tick), y: height - edge.bottom + 15, "text-anchor": "middle" }, short(tick));
    draw(svg, "line", { class: "axis", x1: edge.left, x2: width - edge.right, y1: height - edge.bottom, y2: height - edge.bottom });
    draw(svg, "text", { x: (edge.left + width - edge.right) / 2, y: height - 4, "text-anchor": "middle" }, chart.x);
    draw(svg, "text", { x: 2, y: 11 }, chart.y + (isLog ? " (log scale)" : ""));
    if (chart.hns) {
      const { human, random } = chart.hns, percent = (y) => (100 * (y - random)) / (human - random);
      draw(svg, "text", { x: width - 2, y: 11, "text-anchor": "end" }, "HNS, %");
      for (const tick of niceTicks(percent(low), percent(high), height / 70))
        draw(svg, "text", { x: width - edge.right + 6, y: Y(random + (tick / 100) * (human - random)) + 4 }, short(tick));
    }
    for (const reference of references) {
      draw(svg, "line", { class: "reference", x1: edge.left, x2: width - edge.right, y1: Y(reference.value), y2: Y(reference.value) });
      draw(svg, "text", { x: width - edge.right - 4, y: Y(reference.value) - 4, "text-anchor": "end" }, reference.name);
    }
    for (const line of lines) {
      if (line.low) {
        const outline = [...line.high, ...[...line.low].reverse()].map(([x, y]) => `${X(x).toFixed(1)},${Y(level(y)).toFixed(1)}`);
        draw(svg, "polygon", { points: outline.join(" "), opacity: 0.16 }).style.fill = colour(line.colour);
      }
      const steps = line.points.map(([x, y], i) => {
        const px = X(x).toFixed(1), py = Y(level(y)).toFixed(1);
        return i === 0 ? `M${px} ${py}` : line.is_step ? `H${px}V${py}` : `L${px} ${py}`;
      });
      const path = draw(svg, "path", { class: line.is_faint ? "line faint" : "line", d: steps.join("") });
      path.style.stroke = colour(line.colour);
      if (line.points.length === 1) {
        const [x, y] = line.points[0];
        draw(svg, "circle", { cx: X(x), cy: Y(level(y)), r: 3.5 }).style.fill = colour(line.colour);
      }
    }
    const cross = draw(svg, "line", { class: "cross", y1: edge.top, y2: height - edge.bottom, visibility: "hidden" });
    svg.onpointermove = svg.onpointerdown = (event) => {
      if (!lines.length) return;
      const at = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * width;
      const wanted = xLow + ((at - edge.left) / (width - edge.left - edge.right)) * (xHigh - xLow);
      const anchor = nearest(lines[0].points, wanted)[0];
      cross.setAttribute("x1", X(anchor));
      cross.setAttribute("x2", X(anchor));
      cross.setAttribute("visibility", "visible");
      const rows = [make("b", {}, `${whole(anchor)} ${chart.x}`)];
      for (const line of lines) {
        const [, value] = nearest(line.points, anchor);
        const note = line.notes ? ` (${line.notes[Math.round(value)]})` : "";
        rows.push(tipRow(`${line.name}: ${short(value)}${note}`, colour(line.colour)));
      }
      showTip(event, rows);
    };
    svg.onpointerleave = () => { cross.setAttribute("visibility", "hidden"); hideTip(); };
  };

  // Heat maps -------------------------------------------------------------------------------------
  const heatMap = (chart, svg, width) => {
    const rows = chart.rows, columns = chart.frames.length;
    const cell = Math.max(8, Math.min(20, 260 / rows.length));
    const edge = { left: 40, right: 8, top: 18, bottom: 34 };
    const height = edge.top + edge.bottom + cell * rows.length;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    svg.replaceChildren();
    const values = rows.flat().filter((v) => v !== null && v !== undefined);
    const low = Math.min(...values), high = Math.max(...values);
    const wide = (width - edge.left - edge.right) / columns;
    rows.forEach((row, arm) => row.forEach((value, column) => {
      if (value === null || value === undefined) return;
      const share = high > low ? (value - low) / (high - low) : 0.5;
      const box = draw(svg, "rect", { x: edge.left + column * wide, y: edge.top + arm * cell, width: wide + 0.4, height: cell - 0.5 });
      box.style.fill = `color-mix(in oklab, var(--heat-high) ${(100 * share).toFixed(1)}%, var(--heat-low))`;
    }));
    const stride = Math.ceil(rows.length / (rows.length * cell / 16));
    for (let arm = 0; arm < rows.length; arm += stride)
      draw(svg, "text", { x: edge.left - 6, y: edge.top + (arm + 0.5) * cell + 4, "text-anchor": "end" }, arm);
    draw(svg, "text", { x: 2, y: 11 }, chart.y);
    for (const share of [0, 0.5, 1]) {
      const column = Math.round(share * (columns - 1));
      draw(svg, "text", { x: edge.left + (column + 0.5) * wide, y: height - 20, "text-anchor": ["start", "middle", "end"][share * 2] }, short(chart.frames[column]));
    }
    draw(svg, "text", { x: (edge.left + width - edge.right) / 2, y: height - 4, "text-anchor": "middle" }, chart.x);
    svg.onpointermove = svg.onpointerdown = (event) => {
      const box = svg.getBoundingClientRect();
      const column = Math.floor((((event.clientX - box.left) / box.width) * width - edge.left) / wide);
      const arm = Math.floor((((event.clientY - box.top) / box.height) * height - edge.top) / cell);
      if (!rows[arm] || column < 0 || column >= columns) { hideTip(); return; }
      const value = rows[arm][column];
      const unit = chart.unit === "share" ? (v) => `${(100 * v).toFixed(1)} %` : (v) => `${short(v)} ${chart.unit}`;
      showTip(event, [make("b", {}, `arm ${arm} (${chart.notes[arm]})`), tipRow(`${whole(chart.frames[column])} ${chart.x}`), tipRow(value == null ? "not played" : unit(value))]);
    };
    svg.onpointerleave = hideTip;
    return { low, high };
  };

  // Intervals: one row per name, a point and its confidence interval ------------------------------
  const intervalChart = (chart, svg, width) => {
    const longest = Math.max(...chart.rows.map((r) => r.name.length));
    const pitch = 26, edge = { left: Math.min(12 + 6 * longest, width * 0.55), right: 18, top: 8, bottom: 36 };
    const height = edge.top + edge.bottom + pitch * chart.rows.length;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    svg.replaceChildren();
    const ends = chart.rows.flatMap((r) => [r.point, r.low ?? r.point, r.high ?? r.point]);
    let low = Math.min(0, ...ends), high = Math.max(...ends);
    if (low === high) high = low + 1;
    const X = scale(low, high, edge.left, width - edge.right);
    for (const tick of niceTicks(low, high, Math.max(2, width / 120))) {
      draw(svg, "line", { class: "grid-line", x1: X(tick), x2: X(tick), y1: edge.top, y2: height - edge.bottom });
      draw(svg, "text", { x: X(tick), y: height - edge.bottom + 15, "text-anchor": "middle" }, short(tick));
    }
    draw(svg, "text", { x: (edge.left + width - edge.right) / 2, y: height - 4, "text-anchor": "middle" }, chart.x);
    chart.rows.forEach((row, i) => {
      const y = edge.top + (i + 0.5) * pitch, stroke = colour(row.colour);
      draw(svg, "text", { x: edge.left - 8, y: y + 4, "text-anchor": "end" }, row.name);
      if (row.low !== null) {
        const bar = draw(svg, "line", { x1: X(row.low), x2: X(row.high), y1: y, y2: y, "stroke-width": 6, "stroke-linecap": "round", opacity: 0.35 });
        bar.style.stroke = stroke;
      }
      draw(svg, "circle", { cx: X(row.point), cy: y, r: 4.5 }).style.fill = stroke;
    });
    svg.onpointermove = svg.onpointerdown = (event) => {
      const box = svg.getBoundingClientRect();
      const row = chart.rows[Math.floor((((event.clientY - box.top) / box.height) * height - edge.top) / pitch)];
      if (!row) { hideTip(); return; }
      const range = row.low === null ? "no interval from one run" : `${short(row.low)} to ${short(row.high)}`;
      showTip(event, [make("b", {}, row.name), tipRow(`${short(row.point)} (${range})`, colour(row.colour))]);
    };
    svg.onpointerleave = hideTip;
  };

  // Cards -----------------------------------------------------------------------------------------
  const kinds = { lines: lineChart, map: heatMap, intervals: intervalChart };
  const chartCard = (chart) => {
    const card = make("figure", { class: chart.is_large ? "card large" : "card", style: "margin:0" });
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${chart.title}: ${chart.y || ""} over ${chart.x}`);
    card.append(make("h3", {}, chart.title), make("p", { class: "note" }, chart.note || ""), svg);
    const hidden = new Set((chart.references || []).filter((r) => !r.is_shown).map((r) => r.name));
    let width = 0;
    const redraw = () => { if (width) return kinds[chart.kind](chart, svg, width, hidden); };
    if (chart.kind === "lines") {
      const legend = make("div", { class: "legend" });
      const entries = [...chart.series.map((s) => [s.name, colour(s.colour), s.is_faint]), ...(chart.references || []).map((r) => [r.name, null])];
      for (const [name, paint, faint] of entries) {
        const mark = make("i", paint ? {} : { class: "dashed" });
        if (paint) { mark.style.background = paint; if (faint) mark.style.opacity = 0.55; }
        const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(name)) }, mark, name);
        button.onclick = () => {
          if (!hidden.delete(name)) hidden.add(name);
          button.setAttribute("aria-pressed", String(!hidden.has(name)));
          redraw();
        };
        legend.append(button);
      }
      card.append(legend);
    }
    const ends = chart.kind === "map" ? make("div", { class: "scale" }) : null;
    if (ends) card.append(ends);
    const fit = (now) => {
      if (now === width || !now) return;
      width = now;
      const range = redraw();
      if (ends && range) {
        const say = (v) => (chart.unit === "share" ? `${(100 * v).toFixed(0)} %` : short(v));
        ends.replaceChildren(say(range.low), make("i"), `${say(range.high)}${chart.unit === "share" ? "" : ` ${chart.unit}`}`);
      }
    };
    new ResizeObserver(([entry]) => {
      const now = Math.round(entry.contentRect.width);
      setTimeout(() => fit(now), 0); // later: drawing changes the height, which is observed too
    }).observe(svg);
    card.fit = () => fit(Math.round(svg.getBoundingClientRect().width));
    return card;
  };
  const tableCard = (table) => {
    const body = make("table");
    body.append(make("thead", {}, make("tr", {}, ...table.head.map((h) => make("th", {}, h)))));
    const rows = table.rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, String(cell)))));
    body.append(make("tbody", {}, ...rows));
    const scroll = make("div", { class: "scroll" }, body);
    const card = make("div", { class: "card large" });
    if (table.is_folded) card.append(make("details", { style: "margin:0" }, make("summary", {}, table.title), scroll));
    else {
      if (table.title) card.append(make("h3", {}, table.title));
      card.append(table.rows.length ? scroll : make("p", { class: "note" }, "Nothing differs from the preset."));
    }
    return card;
  };
  const factCard = (card) => {
    const list = make("dl");
    for (const [name, value] of Object.entries(card.facts)) list.append(make("dt", {}, name), make("dd", {}, value));
    return make("div", { class: "card" }, make("h3", {}, card.title), list);
  };
  const filmCard = (film) => {
    const isVideo = film.source.startsWith("data:video");
    const view = isVideo ? make("video", { src: film.source, controls: "", loop: "", playsinline: "", preload: "metadata" }) : make("img", { src: film.source, class: "film", alt: film.title });
    return make("figure", { class: "card", style: "margin:0" }, make("h3", {}, film.title), view);
  };

  payload.sections.forEach((section, index) => {
    const part = make("section", { id: `s${index}` }, make("h2", {}, section.title));
    document.getElementById("contents").append(make("a", { href: `#s${index}` }, section.title));
    if (section.text) part.append(make("p", {}, section.text));
    const grid = make("div", { class: "grid" });
    grid.append(...(section.cards || []).map(factCard), ...(section.charts || []).map(chartCard), ...(section.videos || []).map(filmCard), ...(section.tables || []).map(tableCard));
    part.append(grid);
    page.append(part);
    for (const card of grid.children) card.fit?.();
  });
  document.addEventListener("scroll", hideTip, { passive: true });
})();
