"use strict";
// The live page: fetches its content, follows the server's events, and shows lanes as they play.
(() => {
  const { make, short, whole } = Charts;
  const runsBox = document.getElementById("runs"), lanesBox = document.getElementById("lanes");
  const status = make("span", { class: "status", role: "status" }, "connecting");
  let source = null, isFetching = false, isStale = false, zoomTimer = 0;
  const query = (zoom) => new URLSearchParams([...Page.view.runs.map((key) => ["runs", key]), ...(zoom ? [["zoom", zoom.map(Math.round).join("-")]] : [])]);

  // Content: fetched once more if it changed during a fetch ----------------------------------------------
  const refresh = async () => {
    if (isFetching) { isStale = true; return; }
    isFetching = true;
    try {
      const answer = await fetch(`page?${query(Page.view.zoom)}`);
      if (!answer.ok) throw new Error(await answer.text());
      const payload = await answer.json();
      document.title = document.getElementById("title").textContent = payload.title;
      showRuns(payload);
      Page.show(payload);
    } catch (error) {
      say("lost", `no answer: ${error.message}`);
    }
    isFetching = false;
    if (isStale) { isStale = false; refresh(); }
  };
  const say = (kind, text) => { status.className = `status ${kind}`; status.textContent = text; };

  const connect = () => {
    source?.close();
    source = new EventSource(`events?${query(null)}`);
    source.onopen = () => { say("live", "live"); refresh(); };
    source.onerror = () => {
      say("lost", "reconnecting");
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
    };
    source.addEventListener("changed", refresh);
    source.addEventListener("lane", (message) => showLane(JSON.parse(message.data)));
    source.addEventListener("picture", (message) => showPicture(JSON.parse(message.data)));
  };

  // Runs: one line each; a click shows one alone or adds it ------------------------------------------------
  const showRuns = (payload) => {
    const all = payload.runs, shown = new Set(payload.shown);
    lanesTitle.textContent = all.some((run) => run.state === "training" && shown.has(run.key)) ? "Playing now" : "Played last";
    const pick = (keys) => {
      Page.view.runs = keys.length === all.length ? [] : keys;
      Page.changed("runs");
      lanesBox.replaceChildren();
      lanesBox.hidden = true;
      connect();
    };
    const rows = all.map((run) => {
      const box = make("input", { type: "checkbox", "aria-label": `show ${run.key}` });
      box.checked = shown.has(run.key);
      box.onchange = () => {
        const keys = all.map((r) => r.key).filter((key) => (key === run.key ? box.checked : shown.has(key)));
        pick(keys.length ? keys : [run.key]);
      };
      const name = make("button", { type: "button", class: "plain", title: "show this run alone" }, run.key);
      name.onclick = () => pick([run.key]);
      const share = Math.min(1, run.frames / run.total);
      const bar = make("span", { class: "progress" }, make("i"));
      bar.firstChild.style.width = `${100 * share}%`;
      const left = run.state === "training" && run.rate > 0 ? `, ${time((run.total - run.frames) / run.rate)} left` : "";
      const text = `${run.agent} on ${run.env}, seed ${run.seed}`;
      const facts = `${whole(run.frames)} of ${whole(run.total)} frames${run.state === "training" ? `, ${whole(run.rate)}/s` : ""}${left}`;
      return make("div", { class: "run" }, ...(all.length > 1 ? [box] : []), make("span", { class: `state ${run.state}` }, run.state), name, make("span", { class: "what" }, text), bar, make("span", { class: "facts" }, facts));
    });
    const everything = make("button", { type: "button" }, "show all runs");
    everything.onclick = () => pick(all.map((run) => run.key));
    const list = all.length > 6 ? make("details", {}, make("summary", {}, `${all.length} runs, ${shown.size} shown`), everything, ...rows) : make("div", {}, ...rows);
    if (runsBox.querySelector("details[open]") && list.tagName === "DETAILS") list.open = true;
    const problems = payload.problems.map((text) => make("p", { class: "status lost problem" }, text));
    runsBox.replaceChildren(status, list, ...problems);
  };
  const time = (seconds) => {
    const minutes = Math.round(seconds / 60);
    return minutes >= 2880 ? `${Math.round(minutes / 1440)} days` : minutes >= 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : minutes ? `${minutes} min` : "less than a minute";
  };

  // Lanes -------------------------------------------------------------------------------------------------
  const lanes = new Map(), lanesTitle = make("h2", {}, "Playing now");
  const novelty = (values) => { // a small curve of the last values
    const points = values.map((v, i) => `${(100 * i) / Math.max(1, values.length - 1)},${24 - 22 * (v / Math.max(...values, 1e-9))}`);
    const SVG = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "polyline");
    svg.setAttribute("viewBox", "0 0 100 25");
    svg.setAttribute("preserveAspectRatio", "none");
    line.setAttribute("points", points.join(" "));
    svg.append(line);
    return svg;
  };
  const bars = (lane) => [ // bars per action: values of each network scaled from worst to best, policy from 0 to 1
    ...lane.values.map((values, v) => ({ name: `Q ${lane.networks[v]}`, label: `Q ${lane.networks[v]}${v === 1 ? `, weight ${short(lane.beta)}` : ""}`, css: `net${v}`, values, low: Math.min(...values), high: Math.max(...values) })),
    ...(lane.policy ? [{ name: "policy", label: "policy (probability)", css: "policy", values: lane.policy, low: 0, high: 1 }] : []),
  ];
  const actionBars = (lane) => make("div", { class: "actions" }, ...lane.values[0].map((_, action) => {
    const name = lane.action_names[action] ?? String(action);
    const css = ["action", ...(action === lane.action ? ["chosen"] : []), ...(action === lane.best_action ? ["greedy"] : [])];
    const drawn = bars(lane).map(({ values, low, high, css }) => {
      const bar = make("i", { class: css });
      bar.style.width = `${(100 * (values[action] - low)) / (high - low || 1)}%`;
      return bar;
    });
    const title = `${name}: ${bars(lane).map((bar) => `${bar.name} ${short(bar.values[action])}`).join(", ")}`;
    return make("div", { class: css.join(" "), title }, make("span", {}, name), make("span", { class: "bars" }, ...drawn));
  }));
  const showLane = (lane) => {
    lanesBox.hidden = false;
    if (!lanes.has(lane.name) || !lanes.get(lane.name).box.isConnected) {
      const box = make("figure", { class: "card lane" });
      lanes.set(lane.name, { box, novelty: [], episode: -1, image: make("img", { alt: `the game in ${lane.name}` }), note: make("span", { class: "note" }, "the picture is being drawn") });
      if (!lanesBox.children.length) lanesBox.append(lanesTitle, make("div", { class: "lanes" }));
      lanesBox.lastChild.append(box);
    }
    const seen = lanes.get(lane.name);
    if (seen.episode !== lane.episode) seen.novelty = [];
    Object.assign(seen, { episode: lane.episode, steps: lane.steps });
    if (seen.picture) tellAge(seen);
    if (lane.novelty !== null) seen.novelty = [...seen.novelty, lane.novelty].slice(-80);
    const phase = lane.phase === "evaluate" ? "playing its best arm" : "trying arms";
    const title = lane.source === "evaluator" ? `Evaluator, ${phase}` : `Actor lane ${lane.lane}, epsilon ${+lane.epsilon.toPrecision(2)}`;
    const facts = make("div", { class: "score" }, make("b", {}, Number.isInteger(lane.score) ? whole(lane.score) : short(lane.score)), make("span", {}, `step ${whole(lane.steps)}`));
    const arm = make("div", { class: "note" }, `arm ${lane.arm}: beta ${short(lane.beta)}, gamma ${+lane.gamma.toPrecision(6)}`);
    const networks = make("div", { class: "nets" }, ...bars(lane).map(({ label, css }) => make("span", { class: css }, label)));
    const parts = [make("h3", {}, title), make("div", { class: "screen" }, seen.image, seen.note), facts, arm, networks, actionBars(lane)];
    if (lane.novelty !== null) parts.push(make("div", { class: "novelty" }, make("span", {}, `novelty ${short(lane.novelty)}, life-long x ${short(lane.modulation)}`), novelty(seen.novelty)));
    seen.box.replaceChildren(...parts);
  };

  const showPicture = (picture) => {
    const seen = lanes.get(picture.name);
    if (!seen) return;
    if (picture.source) seen.image.src = picture.source; else seen.image.removeAttribute("src");
    seen.picture = picture;
    tellAge(seen);
  };
  const tellAge = ({ picture, note, episode, steps }) => { // pictures are drawn later than numbers are shown
    const isBehind = picture.episode !== episode || steps - picture.steps > 10;
    note.textContent = picture.note || (isBehind ? `picture of step ${whole(picture.steps)}` : "");
  };

  Page.listen((kind) => {
    if (kind === "zoom") { clearTimeout(zoomTimer); zoomTimer = setTimeout(refresh, 150); }
    if (kind === "address") connect();
  });
  runsBox.append(status);
  connect();
})();
