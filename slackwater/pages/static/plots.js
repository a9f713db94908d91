// Draws the figures that a page has as JSON, in the colours of its style sheet. Loaded before the plot
// library, because what follows must hold when that is loaded.
"use strict";

// The library writes style attributes and makes style elements. The content security policy refuses both as
// texts and allows them as objects: a style attribute is set through the element's style, and the style element,
// which is for maps that we do not draw, is made inert. Rules that the library needs go to plotly.css.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};
const createElement = Document.prototype.createElement;
Document.prototype.createElement = function (name, options) {
  return createElement.call(this, name === "style" ? "template" : name, options);
};

(() => {
  const COLOUR = /^var\((--[a-z0-9-]+)\)$/;
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };

  function colours() {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(name).trim();
  }

  // A copy of a figure with `var(--name)` replaced by the style sheet's value.
  function coloured(value, colour) {
    if (typeof value === "string") {
      const match = COLOUR.exec(value);
      return match ? colour(match[1]) : value;
    }
    if (Array.isArray(value)) return value.map((item) => coloured(item, colour));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, colour)]));
    }
    return value;
  }

  // `own` over `common`, deeply; lists are replaced.
  function merged(common, own) {
    const result = { ...common };
    for (const [key, value] of Object.entries(own)) {
      const isObject = value && typeof value === "object" && !Array.isArray(value);
      result[key] = isObject && result[key] ? merged(result[key], value) : value;
    }
    return result;
  }

  function layoutOf(figure, width) {
    const axis = {
      gridcolor: "var(--grid)", linecolor: "var(--line)", zerolinecolor: "var(--line)",
      tickcolor: "var(--line)", automargin: true, fixedrange: false, title: { standoff: 8, font: { size: 11, color: "var(--muted)" } },
      tickfont: { size: 11, color: "var(--muted)" },
    };
    const common = {
      autosize: true, height: figure.height,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "var(--font)", size: 12, color: "var(--text)" },
      margin: { l: 44, r: 12, t: 8, b: 28 },
      xaxis: { ...axis, showgrid: false, nticks: width < 480 ? 4 : 8 },
      yaxis: { ...axis, nticks: 5, rangemode: "tozero" },
      legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", font: { size: 11 } },
      hovermode: "x unified", bargap: 0.15,
      hoverlabel: { bgcolor: "var(--surface)", bordercolor: "var(--line)",
                    font: { family: "var(--font)", size: 12, color: "var(--text)" } },
      showlegend: figure.data.length > 1,
      separators: ".,",
    };
    return merged(common, figure.layout);
  }

  function draw() {
    const colour = colours();
    for (const block of document.querySelectorAll("script[data-plot]")) {
      const area = document.getElementById(block.dataset.plot);
      const figure = JSON.parse(block.textContent);
      const layout = layoutOf(figure, area.clientWidth);
      Plotly.react(area, coloured(figure.data, colour), coloured(layout, colour), CONFIG);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  });
})();
