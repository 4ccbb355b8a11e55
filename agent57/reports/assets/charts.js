"use strict";
// Draws charts with uPlot, from the descriptions that reports/charts.py makes.
// A chart object has update(chart), restyle(), resize() and destroy(). page.js holds zoom, smoothing and log axes.
const Charts = (() => {
  const probe = document.createElement("i");
  const paint = (value) => { // a CSS colour, resolved for the canvas in the light or dark theme
    if (!probe.isConnected) { probe.hidden = true; document.body.append(probe); }
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const colour = (index) => `var(--c${index % 8})`;
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // Numbers ---------------------------------------------------------------------------------------
  const UNITS = [[1e9, "B"], [1e6, "M"], [1e3, "k"]];
  const brief = (value) => {
    const size = Math.abs(value);
    for (const [unit, letter] of UNITS) if (size >= unit) return `${+(value / unit).toPrecision(4)}${letter}`;
    return size !== 0 && size < 1e-3 ? value.toExponential(1).replace(".0e", "e") : `${+value.toPrecision(4)}`;
  };
  const isWhole = (value) => Math.abs(value - Math.round(value)) < 1e-6;
  const whole = (value) => Math.round(value).toLocaleString("en");
  const short = (value) => (Math.abs(value) >= 1e3 && Math.abs(value) < 1e4 ? whole(value) : brief(value)); // 2,035 rather than 2.035k
  const ticks = (splits, step) => { // labels of an axis: all in one unit, with no more digits than needed
    const largest = Math.max(...splits.map((v) => Math.abs(v ?? 0)));
    const [unit, letter] = UNITS.find(([size]) => largest >= size) || [1, ""];
    const digits = [0, 1, 2, 3, 4, 5, 6].find((n) => isWhole((step / unit) * 10 ** n)) ?? 6; // a step of 0.25 needs two digits
    if (unit === 1 && digits > 4) return splits.map((v) => (v === null ? "" : v === 0 ? "0" : v.toExponential(2).replace(/\.?0+e/, "e")));
    const said = (v) => (letter ? `${+(v / unit).toFixed(digits)}${letter}` : v.toFixed(digits)); // such as 5k and 7.5k
    return splits.map((v) => (v === null ? "" : v === 0 ? "0" : said(v)));
  };
  const isRound = (value) => isWhole(value / 10 ** Math.floor(Math.log10(value) + 1e-9)); // whether a number is 1, 2, ... or 9 times a power of ten
  const roundDown = (value) => { // to one significant digit
    const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
    return Number((Math.floor(value / power + 1e-9) * power).toPrecision(1));
  };
  const sparse = (splits) => { // lines of a log axis: over more than two decades, only powers of ten
    const known = splits.filter((v) => v > 0), isWide = Math.max(...known) / Math.min(...known) > 100;
    return splits.map((v) => (!isWide || Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null));
  };
  const niceTicks = (low, high, count) => {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= raw) * power;
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    return found;
  };
  const smoothed = (values, weight) => { // exponential mean, corrected for its start
    if (!weight) return values;
    let mean = 0, mass = 0;
    return values.map((v) => {
      if (v === null || v === undefined) return null;
      mean = weight * mean + (1 - weight) * v;
      mass = weight * mass + (1 - weight);
      return mean / mass;
    });
  };

  // Tooltip ---------------------------------------------------------------------------------------
  const tip = () => document.getElementById("tip");
  const hideTip = () => { tip().hidden = true; };
  const showTip = (event, rows) => {
    const box = tip(), gap = 14;
    box.replaceChildren(...rows);
    box.hidden = false;
    const size = box.getBoundingClientRect();
    let left = event.clientX + gap, top = event.clientY + gap;
    if (left + size.width > innerWidth - 6) left = Math.max(6, event.clientX - size.width - gap);
    if (top + size.height > innerHeight - 6) top = Math.max(6, event.clientY - size.height - gap);
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
  };
  const tipRow = (text, dot = null) => {
    const row = make("div");
    if (dot) { const mark = make("i"); mark.style.background = dot; row.append(mark); }
    row.append(text);
    return row;
  };

  // Shared by all uPlot charts ----------------------------------------------------------------------
  const axis = (more) => ({
    stroke: paint("var(--dim)"), font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif",
    grid: { stroke: paint("var(--grid)"), width: 1 }, ticks: { show: false }, ...more,
  });
  const xAxis = (label) => axis({ label, labelSize: 16, size: 26, gap: 4, space: 70, grid: { show: false }, values: (u, s, i, space, step) => ticks(s, step) });
  const isOverTime = (chart) => chart.kind !== "lines" || /frames|steps/.test(chart.x); // other charts have their own x axis
  const xScale = (chart, page) => ({
    time: false,
    range: (u, low, high) => {
      if (page.view.zoom && isOverTime(chart())) return page.view.zoom;
      if (chart().x_range) return chart().x_range;
      if (low === null || low === undefined) return [0, 1];
      return low === high ? [0, high || 1] : [Math.min(low, page.start ?? 0), high];
    },
  });
  const nearest = (values, index) => { // the value at the index, or the nearest known value on either side
    for (let step = 0; step < 12; step++)
      for (const i of [index - step, index + step]) if (values[i] !== null && values[i] !== undefined) return values[i];
    return null;
  };

  class Plot { // a uPlot in a box, rebuilt when its structure or style changes
    constructor(chart, box, page) {
      Object.assign(this, { chart, box, page, plot: null });
      this.build();
    }
    base() {
      return {
        width: this.width(), height: this.height(),
        legend: { show: false }, padding: [this.chart.references ? 18 : 8, this.chart.hns ? 0 : 18, 0, 0],
        cursor: {
          y: false, // y has no meaning in the other charts whose cursor moves too
          sync: { key: isOverTime(this.chart) ? "frames" : this.chart.title, setSeries: false, scales: ["x", null] },
          drag: { x: isOverTime(this.chart), y: false, setScale: false }, points: { size: 6 }, focus: { prox: -1 },
          bind: { dblclick: () => () => this.page.setZoom(null) },
        },
      };
    }
    hooks() { // the cursors of all charts move together, but only the hovered chart shows a tooltip
      return { setSelect: [(u) => this.selected(u)], setCursor: [(u) => { if (this.isHovered && u.cursor.event) this.point(u.cursor.event); }] };
    }
    width() { return Math.max(120, Math.floor(this.box.getBoundingClientRect().width)); }
    height() { return this.chart.is_large ? Math.round(Math.min(380, Math.max(240, this.width() * 0.42))) : 200; }
    build() {
      this.destroy();
      this.plot = new uPlot(this.options(), this.data(), this.box);
      const over = this.plot.over;
      over.addEventListener("mouseenter", () => { this.isHovered = true; });
      over.addEventListener("mouseleave", () => { this.isHovered = false; hideTip(); });
      const note = this.box.parentElement.querySelector(".empty") || make("div", { class: "empty" });
      note.textContent = this.chart.empty || "";
      note.hidden = !this.chart.empty;
      this.box.append(note);
    }
    selected(u) { // a drag across the chart
      const { left, width } = u.select;
      if (width < 8 || !isOverTime(this.chart)) return;
      this.page.setZoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }
    update(chart) {
      const isSame = this.shape(chart) === this.shape(this.chart);
      this.chart = chart;
      if (isSame) this.plot.setData(this.data()); else this.build();
    }
    rescale() { this.plot.setData(this.data()); }
    restyle() { this.build(); }
    resize() { if (this.width() !== this.plot.width) this.plot.setSize({ width: this.width(), height: this.height() }); }
    destroy() { this.plot?.destroy(); this.plot = null; }
  }

  // Lines -----------------------------------------------------------------------------------------
  class Lines extends Plot {
    shape(chart) { return JSON.stringify([chart.series, (chart.references || []).map((r) => r.name), chart.empty]); }
    isHidden(name) { return this.page.isHidden(this.chart, name); }
    isLog() { return this.page.isLog(this.chart) && this.chart.data.slice(1).some((row) => row.some((v) => v > 0)); }
    references() { return (this.chart.references || []).filter((r) => !this.isHidden(r.name)); }
    columns() { // [name, first column, has a band] of each line
      let column = 1;
      return this.chart.series.map((line) => { const at = column; column += line.has_band ? 3 : 1; return [line, at]; });
    }
    data() {
      const weight = this.page.view.smooth, isLog = this.isLog();
      const rows = [this.chart.data[0]];
      for (const [line, at] of this.columns())
        for (let i = at; i < at + (line.has_band ? 3 : 1); i++) {
          const row = line.is_step ? this.chart.data[i] : smoothed(this.chart.data[i], weight);
          rows.push(isLog ? row.map((v) => (v > 0 ? v : null)) : row);
        }
      return rows;
    }
    yRange(low, high) {
      const isLog = this.isLog(), fixed = this.chart.y_range;
      if (fixed && !isLog) { const pad = (fixed[1] - fixed[0]) * 0.04; return [fixed[0] - pad, fixed[1] + pad]; }
      const levels = this.references().map((r) => r.value).filter((v) => !isLog || v > 0);
      const ends = [low, high, ...levels].filter((v) => v !== null && v !== undefined && Number.isFinite(v));
      if (!ends.length) return isLog ? [0.1, 1] : [0, 1];
      let bottom = Math.min(...ends), top = Math.max(...ends);
      if (isLog) return bottom === top ? [roundDown(bottom / 2), top * 2] : [roundDown(bottom / 1.2), top * 1.2]; // labels are counted from the bottom
      if (bottom === top && !top) return [0, 1];
      if (bottom === top) { const pad = Math.abs(bottom) * 0.1 || 1; return [bottom - pad, top + pad]; }
      const pad = (top - bottom) * 0.06;
      return [bottom >= 0 && bottom - pad < 0 ? 0 : bottom - pad, top + pad];
    }
    options() {
      const chart = this.chart, isLog = this.isLog(), series = [{}], bands = [];
      for (const [line, at] of this.columns()) {
        const stroke = paint(colour(line.colour)), show = !this.isHidden(line.name);
        const fades = line.is_faint ? 0.45 : 1;
        series.push({
          label: line.name, show, stroke, width: line.is_faint ? 1.2 : 1.8, alpha: fades, spanGaps: true,
          points: { show: (u, i) => u.data[i].filter((v) => v !== null && v !== undefined).length < 2, size: 7, fill: stroke },
          ...(line.is_step ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
        });
        if (line.has_band) {
          for (let i = 0; i < 2; i++) series.push({ show, stroke: "transparent", width: 0, points: { show: false } });
          bands.push({ series: [at + 2, at + 1], fill: paint(`color-mix(in srgb, ${colour(line.colour)} 18%, transparent)`) });
        }
      }
      const values = (u, s, i, space, step) => (isLog ? s.map((v) => (v !== null && isRound(v) ? brief(v) : "")) : ticks(s, step));
      const grid = { stroke: paint("var(--grid)"), width: 1, ...(isLog ? { filter: (u, s) => sparse(s) } : {}) };
      const axes = [xAxis(chart.x), axis({ size: 52, gap: 4, space: 36, values, grid, ...(chart.is_whole ? { incrs: [1, 2, 4, 5, 8, 10, 16] } : {}) })];
      if (chart.hns) axes.push(this.humanAxis());
      return {
        ...this.base(), series, bands, axes,
        scales: { x: xScale(() => this.chart, this.page), y: { distr: isLog ? 3 : 1, range: (u, low, high) => this.yRange(low, high) } },
        hooks: { ...this.hooks(), drawAxes: [(u) => this.drawReferences(u)] },
      };
    }
    humanAxis() { // the same scale, in percent of the human score
      const { human, random } = this.chart.hns;
      const percent = (y) => (100 * (y - random)) / (human - random), level = (p) => random + (p / 100) * (human - random);
      return axis({
        side: 1, scale: "y", size: 46, gap: 4, grid: { show: false },
        splits: (u, i, low, high) => niceTicks(percent(low), percent(high), 4).map(level),
        values: (u, splits) => splits.map((y) => `${short(Math.round(percent(y) * 10) / 10)} %`),
      });
    }
    drawReferences(u) { // lines that are close share one label, so that labels do not overlap
      const { ctx, bbox } = u, ratio = devicePixelRatio, pitch = 17 * ratio, right = bbox.left + bbox.width;
      const rows = this.references().map((r) => ({ name: r.name, y: u.valToPos(r.value, "y", true) }));
      const inside = rows.filter((r) => r.y >= bbox.top - 1 && r.y <= bbox.top + bbox.height + 1).sort((a, b) => a.y - b.y);
      ctx.save();
      ctx.strokeStyle = paint("var(--dim)");
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "right";
      ctx.lineWidth = ratio;
      ctx.setLineDash([5 * ratio, 4 * ratio]);
      ctx.globalAlpha = 0.6;
      const labels = [];
      for (const { name, y } of inside) {
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(right, y);
        ctx.stroke();
        const last = labels[labels.length - 1];
        if (last && y - last.bottom < pitch) { last.names.push(name); last.bottom = y; } else labels.push({ names: [name], top: y, bottom: y });
      }
      ctx.globalAlpha = 1;
      for (const { names, top } of labels) { // a label is above the topmost of its lines
        let text = names.join(", ");
        for (let kept = names.length - 1; kept > 0 && ctx.measureText(text).width > 0.8 * bbox.width; kept--) text = `${names.slice(0, kept).join(", ")} and ${names.length - kept} more`;
        const at = top - 6 * ratio, wide = ctx.measureText(text).width;
        ctx.fillStyle = paint("var(--card)");
        ctx.fillRect(right - wide - 8 * ratio, at - 9 * ratio, wide + 6 * ratio, 11 * ratio);
        ctx.fillStyle = paint("var(--dim)");
        ctx.fillText(text, right - 5 * ratio, at);
      }
      ctx.restore();
    }
    point(event) {
      const u = this.plot, index = u.cursor.idx;
      if (index === null || index === undefined) { hideTip(); return; }
      const rows = [make("b", {}, `${whole(u.data[0][index])} ${this.chart.x}`)];
      for (const [line, at] of this.columns()) {
        if (this.isHidden(line.name)) continue;
        const value = nearest(u.data[at], index);
        if (value === null) continue;
        const note = line.notes ? ` (${line.notes[Math.round(value)]})` : "";
        const band = line.has_band ? [nearest(u.data[at + 1], index), nearest(u.data[at + 2], index)] : null;
        const range = band && band[0] !== null ? ` (${short(band[0])} to ${short(band[1])})` : "";
        rows.push(tipRow(`${line.name}: ${short(value)}${note}${range}`, colour(line.colour)));
      }
      showTip(event, rows);
    }
  }

  // Heat maps: a row per arm, a column per line of metrics -------------------------------------------
  const mix = (a, b, share) => `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(" ")})`;
  const channels = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
  class HeatMap extends Plot {
    shape(chart) { return JSON.stringify([chart.notes, chart.labels, chart.empty]); }
    height() { return Math.round(62 + Math.max(64, this.chart.labels ? this.chart.rows.length * 15 : Math.min(260, this.chart.rows.length * 18))); }
    name(row) { return this.chart.labels ? this.chart.labels[row] : `arm ${row}`; }
    data() { return [this.chart.frames, this.chart.best.map((v) => v ?? null)]; }
    ends() { // the scale begins at 0 unless there are negative values
      const values = this.chart.rows.flat().filter((v) => v !== null);
      const low = Math.min(0, ...values), high = Math.max(0, ...values);
      return { low, high: high > low ? high : low + 1 };
    }
    options() {
      const arms = this.chart.rows.length;
      return {
        ...this.base(),
        series: [{}, { label: "best arm", stroke: paint("var(--c1)"), width: 2, points: { show: false }, spanGaps: true, paths: uPlot.paths.stepped({ align: 1 }) }],
        axes: [xAxis(this.chart.x), axis({ size: this.chart.labels ? 132 : 40, gap: 4, space: this.chart.labels ? 12 : 16, grid: { show: false }, incrs: [1, 2, 4, 8, 16], values: (u, s) => s.map((v) => (Number.isInteger(v) ? this.chart.labels?.[v] ?? String(v) : "")) })],
        scales: { x: xScale(() => this.chart, this.page), y: { dir: -1, range: [-0.5, arms - 0.5] } },
        hooks: { ...this.hooks(), drawClear: [(u) => this.drawCells(u)] },
      };
    }
    drawCells(u) {
      const { ctx, bbox } = u, { low, high } = this.ends(), { rows, frames } = this.chart;
      const cool = channels(paint("var(--heat-low)")), warm = channels(paint("var(--heat-high)"));
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.fillStyle = paint("var(--none)");
      ctx.fillRect(bbox.left, bbox.top, bbox.width, bbox.height);
      frames.forEach((frame, i) => { // a line of metrics covers the frames since the line before
        const left = u.valToPos(i ? frames[i - 1] : this.page.view.zoom ? u.scales.x.min : 0, "x", true), right = u.valToPos(frame, "x", true);
        rows.forEach((row, arm) => {
          if (row[i] === null) return;
          const top = u.valToPos(arm - 0.5, "y", true), bottom = u.valToPos(arm + 0.5, "y", true);
          ctx.fillStyle = mix(cool, warm, (row[i] - low) / (high - low));
          ctx.fillRect(left, top, right - left + 0.5, bottom - top - 1);
        });
      });
      ctx.restore();
    }
    say(value) { return this.chart.unit === "arm" ? `arm ${value}` : this.chart.unit === "share" ? `${+(100 * value).toPrecision(3)} %` : `${short(value)} ${this.chart.unit}`; }
    point(event) {
      const u = this.plot, { left, top } = u.cursor;
      if (left === undefined || left < 0) { hideTip(); return; }
      const at = u.posToVal(left, "x"), arm = Math.round(u.posToVal(top, "y"));
      const column = this.chart.frames.findIndex((frame) => frame >= at);
      if (column < 0 || !this.chart.rows[arm]) { hideTip(); return; }
      const value = this.chart.rows[arm][column];
      const text = value === null ? "nothing there" : this.say(value);
      showTip(event, [make("b", {}, `${this.name(arm)} (${this.chart.notes[arm]})`), tipRow(`until ${whole(this.chart.frames[column])} ${this.chart.x}`), tipRow(text)]);
    }
  }

  // Intervals: one row per name, a point and its confidence interval ----------------------------------
  class Intervals {
    constructor(chart, box, page) { Object.assign(this, { chart, box, page }); this.build(); }
    build() {
      const { rows } = this.chart, ends = rows.flatMap((r) => [r.point, r.low ?? r.point, r.high ?? r.point]);
      const low = Math.min(0, ...ends), high = Math.max(...ends) > low ? Math.max(...ends) : low + 1;
      const place = (v) => `${(100 * (v - low)) / (high - low)}%`;
      const list = make("div", { class: "intervals" });
      for (const row of rows) {
        const track = make("div", { class: "track" });
        if (row.low !== null) {
          const bar = make("span", { class: "bar" });
          Object.assign(bar.style, { left: place(row.low), width: `${(100 * (row.high - row.low)) / (high - low)}%`, background: colour(row.colour) });
          track.append(bar);
        }
        const dot = make("span", { class: "dot" });
        Object.assign(dot.style, { left: place(row.point), background: colour(row.colour) });
        track.append(dot);
        const range = row.low === null ? "no interval from one run" : `${short(row.low)} to ${short(row.high)}`;
        const line = make("div", { class: "row" }, make("span", { class: "name" }, row.name), track, make("span", { class: "value" }, short(row.point)));
        line.onpointermove = (event) => showTip(event, [make("b", {}, row.name), tipRow(`${short(row.point)} (${range})`, colour(row.colour))]);
        line.onpointerleave = hideTip;
        list.append(line);
      }
      this.box.replaceChildren(list, make("p", { class: "note" }, this.chart.x));
    }
    update(chart) { this.chart = chart; this.build(); }
    rescale() {}
    restyle() {}
    resize() {}
    destroy() {}
  }

  const kinds = { lines: Lines, map: HeatMap, intervals: Intervals };
  return { make, colour, short, whole, ticks, isOverTime, hideTip, showTip, tipRow, draw: (chart, box, page) => new kinds[chart.kind](chart, box, page), HeatMap };
})();
