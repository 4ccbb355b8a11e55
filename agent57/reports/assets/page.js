"use strict";
// The page: sections of cards, charts and tables. Its address holds the view: zoom, smoothing, log axes, hidden lines, theme.
const Page = (() => {
  const { make, colour, short } = Charts;
  const main = document.getElementById("page");
  const cards = new Map(); // key -> the card of a chart
  let shown = null; // the payload
  const listeners = []; // called after the view changed

  // The view, kept in the address so that a link restores it -------------------------------------------
  const view = { zoom: null, smooth: 0, theme: "auto", logs: new Map(), toggled: new Set(), runs: [], extra: new Map() };
  const readView = () => {
    const params = new URLSearchParams(location.hash.slice(1));
    const zoom = (params.get("zoom") || "").split("-").map(Number);
    view.zoom = zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null;
    view.smooth = Math.min(0.99, Math.max(0, Number(params.get("smooth")) || 0));
    view.theme = ["light", "dark"].includes(params.get("theme")) ? params.get("theme") : "auto";
    view.logs = new Map(params.getAll("log").map((key) => [key, true]).concat(params.getAll("linear").map((key) => [key, false])));
    view.toggled = new Set(params.getAll("toggle"));
    view.extra = new Map(["advice"].filter((name) => params.has(name)).map((name) => [name, params.get(name)]));
    view.runs = params.getAll("runs");
  };
  const writeView = () => {
    const params = new URLSearchParams();
    if (view.zoom) params.set("zoom", view.zoom.map(Math.round).join("-"));
    if (view.smooth) params.set("smooth", view.smooth);
    if (view.theme !== "auto") params.set("theme", view.theme);
    for (const [key, isLog] of view.logs) params.append(isLog ? "log" : "linear", key);
    for (const key of view.toggled) params.append("toggle", key);
    for (const key of view.runs) params.append("runs", key);
    for (const [name, value] of view.extra) if (value) params.set(name, value);
    history.replaceState(null, "", `${location.pathname}${location.search}#${params}`);
  };
  const changed = (kind) => { writeView(); for (const listen of listeners) listen(kind); };
  const built = () => [...cards.values()].filter((card) => card.plot);

  const page = {
    view,
    start: 0,
    isLog: (chart) => view.logs.get(chart.title) ?? Boolean(chart.is_log),
    isHidden: (chart, name) => {
      const reference = (chart.references || []).find((r) => r.name === name);
      return Boolean(reference && !reference.is_shown) !== view.toggled.has(`${chart.title}|${name}`);
    },
    setZoom: (zoom) => {
      view.zoom = zoom;
      page.refreshControls();
      for (const card of built()) card.plot.rescale();
      changed("zoom");
    },
  };

  // Controls ------------------------------------------------------------------------------------------
  const lastFrame = () => Math.max(1, ...built().flatMap((card) => (card.chart.kind === "map" ? card.chart.frames : card.chart.data?.[0] || [])));
  let furthest = 1; // last frames of all payloads, zoomed or not
  const controls = document.getElementById("controls");
  const slider = make("input", { type: "range", min: 0, max: 0.98, step: 0.02, "aria-label": "smoothing" });
  slider.oninput = () => { view.smooth = Number(slider.value); page.refreshControls(); for (const card of built()) card.plot.rescale(); changed("smooth"); };
  const amount = make("output");
  const ranges = [["all", null], ["last half", 0.5], ["last tenth", 0.1]].map(([name, share]) => {
    const button = make("button", { type: "button" }, name);
    button.onclick = () => page.setZoom(share ? [furthest * (1 - share), furthest] : null);
    return button;
  });
  const theme = make("button", { type: "button", title: "light, dark, or as in the system" });
  theme.onclick = () => { view.theme = { auto: "light", light: "dark", dark: "auto" }[view.theme]; restyle(); changed("theme"); };
  const link = make("button", { type: "button", title: "copies a link that restores this view" }, "copy link");
  link.onclick = async () => {
    writeView();
    try { await navigator.clipboard.writeText(location.href); link.textContent = "copied"; } catch { link.textContent = "see the address bar"; }
    setTimeout(() => { link.textContent = "copy link"; }, 1500);
  };
  controls.append(make("span", { class: "group" }, ...ranges), make("label", { class: "group" }, "smoothing", slider, amount), make("span", { class: "group" }, theme, link));
  page.refreshControls = () => {
    slider.value = view.smooth;
    amount.textContent = view.smooth ? view.smooth.toFixed(2) : "off";
    ranges[0].setAttribute("aria-pressed", String(!view.zoom));
    theme.textContent = `theme: ${view.theme}`;
  };
  const restyle = () => {
    document.documentElement.dataset.theme = view.theme;
    page.refreshControls();
    for (const card of built()) card.plot.restyle();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);

  // Charts are drawn when they come near the window, and kept up to date only there ---------------------
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const card = entry.target.card;
      card.isNear = entry.isIntersecting;
      if (card.isNear) card.refresh();
    }
  }, { rootMargin: "300px" });
  const sizes = new ResizeObserver((entries) => { for (const entry of entries) entry.target.card.plot?.resize(); });

  class ChartCard {
    constructor(chart) {
      this.title = make("h3", {}, chart.title);
      this.tools = make("span", { class: "tools" });
      this.note = make("p", { class: "note" });
      this.box = make("div", { class: "plot", role: "img" });
      this.legend = make("div", { class: "legend" });
      this.element = make("figure", { class: chart.is_large ? "card large" : "card" }, make("div", { class: "head" }, this.title, this.tools), this.note, this.box, this.legend);
      this.box.card = this.element.card = this;
      this.isNear = false;
      this.set(chart);
      observer.observe(this.element);
      sizes.observe(this.box);
    }
    set(chart) {
      this.chart = chart;
      this.isStale = true;
      this.note.textContent = chart.note || "";
      this.box.setAttribute("aria-label", `${chart.title}: ${chart.y || ""} over ${chart.x}`);
      this.drawTools();
      this.drawLegend();
      if (this.isNear) this.refresh();
    }
    refresh() {
      if (!this.isStale) return;
      this.isStale = false;
      if (this.plot) this.plot.update(this.chart); else this.plot = Charts.draw(this.chart, this.box, page);
      if (this.chart.kind === "map") this.drawScale();
    }
    redraw() { // after the address changed
      this.drawTools();
      this.drawLegend();
      if (this.plot) { this.plot.rescale(); if (this.chart.kind === "map") this.drawScale(); }
    }
    drawTools() {
      const parts = [];
      if (this.chart.y) parts.push(make("span", { class: "unit" }, this.chart.kind === "map" ? "" : this.chart.y));
      if (this.chart.kind === "lines" && !this.chart.y_range && !this.chart.hns) {
        const isLog = page.isLog(this.chart);
        const button = make("button", { type: "button", "aria-pressed": String(isLog), title: "logarithmic axis" }, "log");
        button.onclick = () => { view.logs.set(this.chart.title, !isLog); this.drawTools(); this.plot?.restyle(); changed("log"); };
        parts.push(button);
      }
      this.tools.replaceChildren(...parts);
    }
    drawLegend() {
      if (this.chart.kind !== "lines") return;
      const entries = [...this.chart.series.map((s) => [s.name, colour(s.colour), s.is_faint]), ...(this.chart.references || []).map((r) => [r.name, null])];
      this.legend.replaceChildren(...entries.map(([name, fill, isFaint]) => {
        const mark = make("i", fill ? {} : { class: "dashed" });
        if (fill) { mark.style.background = fill; if (isFaint) mark.style.opacity = 0.5; }
        const button = make("button", { type: "button", "aria-pressed": String(!page.isHidden(this.chart, name)) }, mark, name);
        button.onclick = () => {
          const key = `${this.chart.title}|${name}`;
          if (!view.toggled.delete(key)) view.toggled.add(key);
          button.setAttribute("aria-pressed", String(!page.isHidden(this.chart, name)));
          this.plot?.restyle();
          changed("toggle");
        };
        return button;
      }));
    }
    drawScale() {
      const { low, high } = this.plot.ends(), none = make("i", { class: "none" });
      const best = make("i");
      best.style.background = colour(1);
      this.legend.replaceChildren(make("span", { class: "scale" }, this.plot.say(low), make("i", { class: "ramp" }), this.plot.say(high)), make("span", { class: "scale" }, none, "nothing there"), ...(this.chart.labels ? [] : [make("span", { class: "scale" }, best, "best arm")]));
    }
    destroy() { observer.unobserve(this.element); sizes.unobserve(this.box); this.plot?.destroy(); }
  }

  // Other cards ---------------------------------------------------------------------------------------
  const worded = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part)); // `x` becomes code
  const openAdvice = (anchor) => {
    const entry = document.getElementById(`advice-${anchor}`);
    if (!entry) return;
    entry.open = true;
    entry.scrollIntoView({ behavior: "smooth" });
  };
  const markBox = (mark) => {
    const sign = mark.level === "warning" ? "!" : "i";
    const link = make("a", { href: `#advice=${mark.anchor}` }, "healthy range and advice");
    link.onclick = (event) => { event.preventDefault(); openAdvice(mark.anchor); };
    return make("details", { class: `mark ${mark.level}` }, make("summary", {}, make("b", {}, sign), mark.symptom), make("p", {}, mark.evidence), make("p", {}, ...worded(mark.advice)), make("p", {}, link));
  };
  const adviceCard = (entries) => make("div", { class: "card large" }, ...entries.map((entry) => {
    const list = make("dl", { class: "advice" });
    for (const [name, text] of Object.entries(entry.parts)) list.append(make("dt", {}, name), make("dd", {}, ...worded(text)));
    const box = make("details", { id: `advice-${entry.anchor}` }, make("summary", {}, entry.title), list);
    box.ontoggle = () => { // open entries are a part of the view
      if (box.open) view.extra.set("advice", entry.anchor);
      else if (view.extra.get("advice") === entry.anchor) view.extra.delete("advice");
      writeView();
    };
    return box;
  }));
  const factCard = (card, _, all) => {
    const isAlone = all.length === 1;
    const list = make("dl");
    for (const [name, value] of Object.entries(card.facts)) list.append(make("dt", {}, name), make("dd", {}, value));
    const marks = card.marks || [];
    const health = make("div", { class: "marks" }, ...(marks.length ? marks.map(markBox) : [make("p", { class: "note" }, "No symptoms found.")]));
    return make("div", { class: isAlone ? "card large facts-card" : "card" }, make("h3", {}, card.title), list, health);
  };
  const tableCard = (table) => {
    const heads = table.head.map((h) => make("th", {}, h));
    const rows = table.rows.map((row) => make("tr", {}, ...row.map((cell, i) => make("td", table.head[i] ? { "data-head": table.head[i] } : {}, String(cell)))));
    const body = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
    const scroll = make("div", { class: "scroll" }, body);
    const card = make("div", { class: "card large" });
    if (table.is_folded) card.append(make("details", {}, make("summary", {}, table.title), scroll));
    else {
      if (table.title) card.append(make("h3", {}, table.title));
      card.append(table.rows.length ? scroll : make("p", { class: "note" }, "Nothing differs from the preset."));
    }
    return card;
  };
  const filmCard = (film) => {
    const isVideo = film.source.startsWith("data:video");
    const picture = isVideo ? make("video", { src: film.source, controls: "", loop: "", playsinline: "", preload: "metadata" }) : make("img", { src: film.source, class: "film", alt: film.title });
    return make("figure", { class: "card" }, make("h3", {}, film.title), picture);
  };

  // Sections ------------------------------------------------------------------------------------------
  const chartsOf = (section) => [...(section.charts || []).map((chart) => [`${section.title}|${chart.title}`, chart]), ...(section.parts || []).flatMap((part) => part.charts.map((chart) => [`${section.title}|${part.title}|${chart.title}`, chart]))];
  const outline = (payload) => JSON.stringify(payload.sections.map((s) => [s.title, s.text, chartsOf(s).map(([key, chart]) => [key, chart.kind])]));
  const still = (section) => JSON.stringify([section.cards, section.tables]); // parts that are replaced as a whole
  const grid = (...children) => make("div", { class: "grid" }, ...children);
  const chartCard = (key, chart) => { const card = new ChartCard(chart); cards.set(key, card); return card.element; };

  const build = (payload) => {
    for (const card of cards.values()) card.destroy();
    cards.clear();
    document.getElementById("contents").replaceChildren(...payload.sections.map((s, i) => {
      const anchor = make("a", { href: `#s${i}` }, s.title);
      anchor.onclick = (event) => { event.preventDefault(); document.getElementById(`s${i}`).scrollIntoView({ behavior: "smooth" }); };
      return anchor;
    }));
    if (!payload.sections.length) { main.replaceChildren(make("p", { class: "waiting" }, "No run has written metrics yet. Runs appear here as soon as they write metrics.")); return; }
    main.replaceChildren(...payload.sections.map((section, i) => {
      const part = make("section", { id: `s${i}` }, make("h2", {}, section.title));
      if (section.text) part.append(make("p", {}, section.text));
      const first = grid(...(section.cards || []).map(factCard));
      if (first.children.length) part.append(first);
      const keys = chartsOf(section);
      const own = keys.slice(0, (section.charts || []).length);
      if (own.length) part.append(grid(...own.map(([key, chart]) => chartCard(key, chart))));
      for (const inner of section.parts || [])
        part.append(make("h3", { class: "part" }, inner.title), grid(...inner.charts.map((chart) => chartCard(`${section.title}|${inner.title}|${chart.title}`, chart))));
      const rest = grid(...(section.advice ? [adviceCard(section.advice)] : []), ...(section.videos || []).map(filmCard), ...(section.tables || []).map(tableCard));
      if (rest.children.length) part.append(rest);
      part.first = first;
      part.rest = rest;
      return part;
    }));
  };
  const replaceAll = (holder, made) => { // keeps open what the reader has opened
    const open = new Set([...holder.querySelectorAll("details[open] > summary")].map((s) => s.textContent));
    holder.replaceChildren(...made);
    for (const summary of holder.querySelectorAll("details > summary")) if (open.has(summary.textContent)) summary.parentElement.open = true;
  };
  const show = (payload) => {
    const frames = payload.sections.flatMap(chartsOf).map(([, c]) => (c.kind === "map" ? c.frames : c.kind === "lines" && Charts.isOverTime(c) ? c.data[0] : [])).map((row) => row[row.length - 1] || 0);
    furthest = Math.max(furthest, ...frames);
    if (!shown || outline(shown) !== outline(payload)) {
      build(payload);
      if (view.extra.has("advice")) openAdvice(view.extra.get("advice"));
    }
    else payload.sections.forEach((section, i) => {
      for (const [key, chart] of chartsOf(section)) cards.get(key).set(chart);
      const part = document.getElementById(`s${i}`);
      if (still(section) !== still(shown.sections[i])) {
        replaceAll(part.first, (section.cards || []).map(factCard));
        replaceAll(part.rest, [...(section.videos || []).map(filmCard), ...(section.tables || []).map(tableCard)]);
      }
    });
    shown = payload;
  };

  readView();
  document.documentElement.dataset.theme = view.theme;
  page.refreshControls();
  document.addEventListener("scroll", Charts.hideTip, { passive: true });
  addEventListener("hashchange", () => { readView(); restyle(); for (const card of cards.values()) card.redraw(); openAdvice(view.extra.get("advice")); for (const listen of listeners) listen("address"); });
  const payload = JSON.parse(document.getElementById("payload").textContent);
  if (payload.sections) show(payload);
  return { show, view, changed, listen: (fn) => listeners.push(fn), short };
})();
