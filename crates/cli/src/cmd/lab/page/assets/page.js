// Draws the plots of a page with uPlot: values under the pointer, lines that can be hidden, both color schemes.
// The element #plots has the data, as JSON; element [data-plot="N"] gets the plot with index N.
"use strict";
(() => {
  const root = document.documentElement;
  const specs = JSON.parse(document.getElementById("plots")?.textContent ?? "[]");
  const drawn = [];

  // The colors of the style sheet, resolved for the current scheme.
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  let colors = {};
  const color = name => colors[name] ??= (probe.style.color = `var(--${name})`, getComputedStyle(probe).color);

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    element.className = className ?? "";
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const thousands = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  const exact = value => Math.abs(value) >= 1000 ? whole.format(value) : digits.format(value);
  const short = value => {
    const [size, unit] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]].find(([size]) => Math.abs(value) >= size) ?? [1, ""];
    return (size === 1 ? exact(value) : thousands.format(value / (size === 1e4 ? 1e3 : size))) + unit;
  };

  // Ticks: powers of two over a long logarithmic axis, round numbers over any other.
  const ticks = (axis, min, max, most) => {
    if (axis.log && max / min >= 4) {
      const [first, last] = [Math.ceil(Math.log2(min) - 1e-9), Math.floor(Math.log2(max) + 1e-9)];
      const step = Math.max(1, Math.ceil((last - first + 1) / most));
      const powers = [];
      for (let power = Math.ceil(first / step) * step; power <= last; power += step) powers.push(2 ** power);
      return powers;
    }
    const raw = (max - min) / Math.max(2, most), scale = 10 ** Math.floor(Math.log10(raw));
    const least = axis.whole ? 1 : 0;
    const step = Math.max(least, scale * [1, 2, 5, 10].find(factor => factor * scale >= raw * .999));
    const round = [];
    for (let n = Math.ceil(min / step - 1e-9); n * step <= max * (1 + 1e-9); n++) round.push(+(n * step).toPrecision(12));
    return round;
  };

  // The range of an axis: a little more than the values, from 0 on a linear axis, and never narrower than `span`.
  const range = axis => (plot, min, max) => {
    if (min === null || max === null || !isFinite(min)) return axis.log ? [1, 2] : [0, 1];
    if (axis.log) {
      const span = axis.span ?? 2;
      if (axis.about) [min, max] = [Math.min(min, axis.about / span), Math.max(max, axis.about * span)];
      else if (max / min < span) max = min * span;
      const room = (max / min) ** .04;
      return [min / room, max * room];
    }
    const low = Math.min(min, 0);
    return [low, max > low ? max + (max - low) * .05 : low + 1];
  };
  const tight = axis => (plot, min, max) => {
    if (min === null || max === null || min === max) return axis.log ? [(min ?? 1) / 2, (max ?? 1) * 2] : [(min ?? 0) - 1, (max ?? 0) + 1];
    return axis.log ? [min, max] : [min - (max - min) * .015, max + (max - min) * .015];
  };

  const font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
  const axisOptions = (axis, isX) => ({
    font, labelFont: font, stroke: () => color("quiet"),
    label: isX ? axis.title : undefined, labelSize: isX ? 20 : undefined, gap: 6,
    size: isX ? 28 : (plot, values) => 16 + 7 * Math.max(2, ...(values ?? []).map(value => value.length)),
    grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false },
    splits: (plot, number, min, max) => {
      const length = isX ? plot.bbox.width / uPlot.pxRatio / 64 : plot.bbox.height / uPlot.pxRatio / 34;
      const named = Object.keys(axis.labels ?? {}).map(Number).filter(value => value >= min && value <= max);
      const apart = value => named.every(other => Math.abs(value - other) > (max - min) * .08);
      return [...ticks(axis, min, max, Math.max(2, Math.floor(length))).filter(apart), ...named];
    },
    filter: (plot, splits) => splits,
    values: (plot, splits) => splits.map(value => label(axis, value)),
  });
  const label = (axis, value) => axis.labels?.[value] ?? short(value) + (axis.unit ?? "");

  const draw = (holder, spec) => {
    const bands = spec.band ? 2 : 0;
    const shown = value => value === null ? null : Math.max(value, spec.y.floor ?? -Infinity);
    const data = [spec.xs, ...(spec.band ? [spec.band.low, spec.band.high] : []), ...spec.lines.map(line => line.values)];
    const points = { show: spec.xs.length <= 48, size: 5 };
    const series = spec.lines.map(line => {
      const stroke = () => color(line.color);
      const width = line.dash ? 1.5 : 2;
      return { label: line.name, stroke, width, dash: line.dash ? [6, 5] : undefined, spanGaps: true,
        points: line.dash ? { show: false } : { ...points, stroke, fill: stroke } };
    });
    const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
    const tip = make("div", "tip");
    tip.hidden = true;
    const scale = axis => ({ time: false, distr: axis.log ? 3 : 1, log: 2 });
    const options = {
      width: holder.clientWidth, height: holder.clientHeight, padding: [10, 14, 0, 0],
      series: [{}, ...(spec.band ? [edge, { ...edge }] : []), ...series],
      bands: spec.band ? [{ series: [2, 1], fill: () => color("chance") }] : [],
      scales: { x: { ...scale(spec.x), range: tight(spec.x) }, y: { ...scale(spec.y), range: range(spec.y) } },
      axes: [axisOptions(spec.x, true), axisOptions(spec.y, false)],
      legend: { show: false }, focus: { alpha: .3 },
      cursor: {
        drag: { x: false, y: false }, focus: { prox: 30 }, points: { size: 8 },
        sync: spec.group ? { key: spec.group, setSeries: false, scales: ["x", null] } : undefined,
      },
      hooks: { setCursor: [plot => point(plot)], setSeries: [plot => point(plot)] },
    };
    const point = plot => {
      const { idx, left, top } = plot.cursor;
      const here = holder.matches(":hover") || holder === document.activeElement;
      const rows = here && left >= 0 && idx !== null && idx !== undefined ? valuesAt(plot, spec, bands, idx) : [];
      tip.hidden = rows.length === 0;
      if (tip.hidden) return;
      const name = spec.x.title + " " + (spec.x.labels?.[spec.xs[idx]] ?? exact(spec.xs[idx]) + (spec.x.unit ?? ""));
      tip.replaceChildren(make("p", "", name), table(rows));
      const [width, height] = [tip.offsetWidth, tip.offsetHeight];
      const x = plot.bbox.left / uPlot.pxRatio + left, y = plot.bbox.top / uPlot.pxRatio + top;
      const beside = x + 16 + width <= holder.clientWidth ? x + 16 : x - 16 - width;
      tip.style.left = Math.max(0, Math.min(beside, holder.clientWidth - width)) + "px";
      tip.style.top = Math.max(0, Math.min(y - height / 2, holder.clientHeight - height)) + "px";
    };
    const plot = new uPlot(options, data.map((values, index) => index ? values.map(shown) : values), holder);
    holder.append(tip);
    holder.plot = plot;
    holder.addEventListener("mouseleave", () => { tip.hidden = true; });
    holder.addEventListener("blur", () => { tip.hidden = true; });
    holder.addEventListener("keydown", event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const index = Math.max(0, Math.min(spec.xs.length - 1, (plot.cursor.idx ?? -1) + step));
      plot.setCursor({ left: plot.valToPos(spec.xs[index], "x"), top: plot.over.clientHeight / 2 });
    });
    new ResizeObserver(() => {
      if (holder.clientWidth !== plot.width || holder.clientHeight !== plot.height) {
        plot.setSize({ width: holder.clientWidth, height: holder.clientHeight });
      }
    }).observe(holder);
    return plot;
  };

  // The lines at an index, highest first, then what chance allows.
  const valuesAt = (plot, spec, bands, index) => {
    const unit = spec.y.unit ?? "";
    const rows = spec.lines.map((line, number) => ({ line, series: plot.series[number + 1 + bands] }))
      .filter(({ line, series }) => series.show && line.values[index] !== null)
      .map(({ line, series }) => ({
        name: line.name, color: line.color, value: line.values[index], near: series._focus === true,
        text: exact(line.values[index]) + unit,
      }))
      .sort((a, b) => b.value - a.value);
    if (spec.band && spec.band.low[index] !== null && rows.length) {
      rows.push({ name: spec.band.name, text: `${exact(spec.band.low[index])} to ${exact(spec.band.high[index])}${unit}` });
    }
    return rows;
  };

  const table = rows => {
    const body = make("table");
    for (const row of rows) {
      const line = body.insertRow();
      line.className = row.near ? "near" : "";
      const name = line.insertCell();
      if (row.color) name.append(make("i", row.color));
      name.append(row.name);
      line.insertCell().textContent = row.text;
    }
    return body;
  };

  // A button for each line of a plot, or of a group of plots: a click hides or shows it, a second click within a moment
  // shows it alone, or all again.
  const legend = (place, plots) => {
    const names = new Map();
    plots.forEach(({ spec }) => spec.lines.forEach(line => names.has(line.name) || names.set(line.name, line)));
    const hidden = new Set([...names.values()].filter(line => line.off).map(line => line.name));
    const absent = [...hidden].join(", ");
    const update = () => {
      for (const { plot, spec } of plots) {
        const bands = spec.band ? 2 : 0;
        plot.batch(() => spec.lines.forEach((line, number) => {
          const show = !hidden.has(line.name);
          if (plot.series[number + 1 + bands].show !== show) plot.setSeries(number + 1 + bands, { show });
        }));
      }
      buttons.forEach(button => button.setAttribute("aria-pressed", !hidden.has(button.value)));
    };
    const buttons = [...names.values()].map(line => {
      const button = make("button");
      button.type = "button";
      button.value = line.name;
      button.title = "Click to hide or show, double-click to see it alone";
      button.append(make("i", line.color + (line.dash ? " dash" : "")), line.name);
      button.addEventListener("click", () => { hidden.delete(line.name) || hidden.add(line.name); update(); });
      button.addEventListener("dblclick", () => {
        const others = [...names.keys()].filter(name => name !== line.name);
        const alone = others.every(name => hidden.has(name));
        hidden.clear();
        if (!alone) others.forEach(name => hidden.add(name));
        update();
      });
      return button;
    });
    place.append(...buttons);
    const hints = [absent && `Off at first, because far from the others: ${absent}.`];
    if (!document.querySelector(".hint")) hints.push("Click a name to hide or show its line; double-click to see it alone.");
    if (hints.some(Boolean)) place.after(make("p", "hint", hints.filter(Boolean).join(" ")));
    update();
  };

  const draws = () => {
    for (const holder of document.querySelectorAll("[data-plot]")) {
      const spec = specs[holder.dataset.plot];
      holder.replaceChildren();
      drawn.push({ plot: draw(holder, spec), spec });
    }
    for (const place of document.querySelectorAll("[data-keys]")) {
      legend(place, drawn.filter(({ spec }) => spec.keys === place.dataset.keys));
    }
  };
  const recolor = () => {
    colors = {};
    drawn.forEach(({ plot }) => plot.redraw(false, true));
  };

  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = document.querySelector(".theme");
  const dark = () => root.style.colorScheme ? root.style.colorScheme === "dark" : system.matches;
  const named = () => { theme.textContent = dark() ? "Light mode" : "Dark mode"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.style.colorScheme = dark() ? "light" : "dark";
    named();
    recolor();
  });
  system.addEventListener("change", () => { named(); recolor(); });
  named();
  draws();
})();
