// Draws the figures of the page: colours from the style sheet (so charts follow light and dark mode), one policy at a time
// where a chart shows a single run.
(() => {
  "use strict";
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const config = {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };

  const resolved = (value, key = "") => {
    if (typeof value === "string") {
      const isVariable = /color(scale)?$/.test(key) && value.startsWith("--");
      return isVariable ? getComputedStyle(document.documentElement).getPropertyValue(value).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => resolved(item, key));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, resolved(item, name)]));
    }
    return value;
  };

  const page = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.documentElement).fontFamily, size: 12.5, color: "--text" },
    margin: { l: 12, r: 16, t: 14, b: 8 },
    hoverlabel: { bgcolor: "--panel", bordercolor: "--muted", font: { color: "--text" }, align: "left" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "--muted", activecolor: "--accent" },
    autosize: true,
    showlegend: false, // the page has its own, which wraps on a phone
  };
  const axis = { gridcolor: "--grid", zerolinecolor: "--muted", linecolor: "--muted", automargin: true };
  const short = (text) => (text.length > 16 ? `${text.slice(0, 7)}…${text.slice(-7)}` : text);

  const themed = (layout, width) => {
    const whole = { ...page, ...layout };
    for (const name of Object.keys(whole)) {
      if (!/^[xy]axis\d*$/.test(name)) continue;
      const given = whole[name];
      whole[name] = { ...axis, ...given };
      if (given.title) whole[name].title = { font: { size: 12.5, color: "--soft" }, standoff: 8, ...given.title };
      if (given.ticktext && width < 560) whole[name].ticktext = given.ticktext.map(short);
    }
    return resolved(whole);
  };

  // Each entry is a button that hides and shows the traces of its name.
  const drawLegend = (element, traces) => {
    const legend = document.getElementById(element.dataset.legend);
    legend.replaceChildren();
    const named = new Map();
    traces.forEach((trace, index) => {
      if (trace.name) named.set(trace.name, [...(named.get(trace.name) ?? []), index]);
    });
    if (named.size < 2) return;
    for (const [name, indices] of named) {
      const { type, line, marker } = traces[indices[0]];
      const button = document.createElement("button");
      const key = document.createElement("span");
      const isLine = type === "scatter" && line;
      key.className = isLine ? "key line" : marker?.symbol ? "key tick" : "key";
      key.style.setProperty("--key", `var(${isLine ? line.color : marker.color})`);
      key.dataset.dash = line?.dash ?? "solid";
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(key, name);
      button.addEventListener("click", () => {
        const shows = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shows));
        Plotly.restyle(element, { visible: shows }, indices);
      });
      legend.append(button);
    }
  };

  const draw = (element, policy) => {
    const entry = charts[element.dataset.chart];
    const chart = entry.by_policy ? entry.by_policy[policy] : entry;
    element.setAttribute("aria-label", chart.words);
    const caption = document.getElementById(element.dataset.caption);
    if (caption) caption.textContent = entry.by_policy ? `${chart.words} ${chart.note}` : chart.note;
    drawLegend(element, chart.figure.data);
    // Plotly takes the height of the element when the window changes.
    element.style.height = `${chart.figure.layout.height}px`;
    // A copy of the traces: Plotly decodes typed arrays in place.
    const data = resolved(structuredClone(chart.figure.data));
    return Plotly.react(element, data, themed(chart.figure.layout, element.clientWidth), config);
  };

  const elements = [...document.querySelectorAll(".chart")];
  const selected = () => document.querySelector("input[name=policy]:checked")?.value;
  const drawAll = (chosen) => Promise.all(chosen.map((element) => draw(element, selected())));

  for (const input of document.querySelectorAll("input[name=policy]")) {
    input.addEventListener("change", () =>
      drawAll(elements.filter((element) => charts[element.dataset.chart].by_policy)));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(elements));
  drawAll(elements).then(() => { document.documentElement.dataset.drawn = "true"; });
})();
