/* A picture in steps. The data is shown as text and never read as HTML; without this script the
   page keeps its still image. Keys: left and right step, Home and End go to the ends, up and down
   point at the marks one after another. */
document.addEventListener("DOMContentLoaded", () => {
  const SVG = "http://www.w3.org/2000/svg";
  const TAGS = new Set(["rect", "path", "polygon", "text"]);
  const make = (tag, attributes = {}, text = "") => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  };

  const build = (place, data, number) => {
    const id = `eb-player-${number}`;
    const root = make("div", { class: "eb-play", role: "group", "aria-label": data.title });
    const heading = make("p", { class: "eb-title" }, data.title);
    const bar = make("div", { class: "eb-bar" });
    const choose = make("select", { id: `${id}-track` });
    for (const [name] of data.tracks) choose.add(new Option(name));
    if (data.tracks.length > 1) {
      const label = make("label", {}, `${data.choice} `);
      label.append(choose);
      bar.append(label);
    }
    const button = (text, name) => {
      const made = make("button", { type: "button", "aria-label": name, title: name }, text);
      bar.append(made);
      return made;
    };
    const back = button("◀", `Previous ${data.step}`);
    const play = button("Play", "Play");
    const next = button("▶", `Next ${data.step}`);
    const label = make("label", { class: "eb-range" }, `${data.step} `);
    const range = make("input", { type: "range", min: 0, step: 1 });
    const told = make("span", { class: "eb-count" });
    label.append(range);
    const slide = make("div", { class: "eb-slide" });
    slide.append(label, told);

    const caption = make("p", { class: "eb-caption", "aria-live": "polite" });
    const stage = make("div", { class: "eb-stage", tabindex: 0, role: "group" });
    stage.setAttribute("aria-label", `${data.title}: picture`);
    const detail = make("p", { class: "eb-detail", "aria-live": "polite" });
    const legend = make("p", { class: "eb-legend" });
    for (const [kind, text] of data.legend)
      legend.append(make("span", { class: `eb-k ${data.kinds[kind]}` }, text), " ");
    const help = "Keys: ← → step, Home and End to the ends";
    const hint = make("span", { class: "eb-keys" });
    legend.append(hint);
    root.append(heading, bar, slide, caption, stage, detail, legend);

    let track = 0, at = 0, marked = -1, timer = 0;
    let marks = []; // [element, words] of what can be pointed at

    const point = (index) => {
      marks[marked]?.[0].classList.remove("eb-pointed");
      marked = index;
      detail.textContent = marks[index]?.[1] ?? "";
      const node = marks[index]?.[0];
      node?.classList.add("eb-pointed");
      return node;
    };

    const cells = (frame) => {
      const box = make("div", { class: frame.wrap ? "eb-cells eb-wrap" : "eb-cells" });
      const texts = data.texts[frame.texts];
      const words = new Map(data.legend);
      [...frame.kinds].forEach((kind, i) => {
        const node = make("span", { class: `eb-k ${data.kinds[kind]}` }, texts[i]);
        box.append(node);
        if (!data.notes[i]) return;
        const parts = [`“${texts[i].trim() || "space"}”`, data.notes[i]];
        if (words.has(kind)) parts.push(words.get(kind));
        const value = frame.values?.[i];
        if (value !== undefined && value !== null) parts.push(`${data.value} ${value}`);
        marks.push([node, parts.join(", ")]);
      });
      if (!frame.wrap) {
        const said = `${data.title}, ${data.step} ${at}`;
        for (const [name, value] of [["role", "img"], ["aria-label", said]])
          box.setAttribute(name, value);
      }
      return box;
    };

    const drawing = (frame) => {
      const [wide, high] = frame.size;
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", frame.said);
      svg.style.width = `${wide}px`;
      for (const [tag, kind, where, text, note] of frame.shapes) {
        if (!TAGS.has(tag)) continue;
        const node = document.createElementNS(SVG, tag);
        node.setAttribute("class", `eb-k ${data.kinds[kind]}`);
        for (const [name, value] of Object.entries(where)) node.setAttribute(name, value);
        node.textContent = text;
        svg.append(node);
        if (note) marks.push([node, note]);
      }
      return svg;
    };

    const show = () => {
      const frames = data.tracks[track][1];
      at = Math.max(0, Math.min(at, frames.length - 1));
      const frame = frames[at];
      const kept = marked;
      marks = [];
      stage.replaceChildren(frame.size ? drawing(frame) : cells(frame));
      point(kept < marks.length ? kept : -1);
      caption.textContent = frame.caption;
      range.max = frames.length - 1;
      range.value = at;
      range.setAttribute("aria-valuetext", `${data.step} ${at + 1} of ${frames.length}`);
      told.textContent = `${at + 1} of ${frames.length}`;
      back.disabled = at === 0;
      next.disabled = at === frames.length - 1;
      hint.textContent = marks.length ? `${help}, ↑ ↓ point at a part.` : `${help}.`;
    };
    const go = (to) => { at = to; show(); };
    const last = () => data.tracks[track][1].length - 1;
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
      play.setAttribute("aria-label", "Play");
    };

    back.addEventListener("click", () => { stop(); go(at - 1); });
    next.addEventListener("click", () => { stop(); go(at + 1); });
    range.addEventListener("input", () => { stop(); go(Number(range.value)); });
    choose.addEventListener("change", () => { track = choose.selectedIndex; marked = -1; show(); });
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (at === last()) go(0);
      play.textContent = "Pause";
      play.setAttribute("aria-label", "Pause");
      timer = setInterval(() => { go(at + 1); if (at === last()) stop(); }, 1200);
    });
    root.addEventListener("keydown", (event) => {
      if (event.target === range || event.target === choose) return; // they have keys of their own
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last() };
      const points = { ArrowUp: -1, ArrowDown: 1 };
      if (event.key in steps) {
        stop();
        go(steps[event.key]);
      } else if (event.key in points && event.target === stage && marks.length) {
        const to = marked < 0 ? (points[event.key] > 0 ? 0 : marks.length - 1) : marked + points[event.key];
        point(Math.max(0, Math.min(to, marks.length - 1)))
          ?.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else return;
      event.preventDefault();
    });
    for (const kind of ["mouseover", "click"])
      stage.addEventListener(kind, (event) => {
        const index = marks.findIndex(([node]) => node === event.target);
        if (index >= 0) point(index);
      });
    at = last();
    show();
    place.insertBefore(root, place.querySelector(".eb-about"));
    place.classList.add("eb-live");
  };

  document.querySelectorAll(".eb-player").forEach((place, number) => {
    const source = place.querySelector("script.eb-player-data");
    if (source) build(place, JSON.parse(source.textContent), number);
  });
});
