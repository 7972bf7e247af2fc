// The part of a panel that the kernel paints: picture, status line, table, call.
// Everything is built once; a slider move only replaces attributes and text.
const BARS = 120; // pixels: JupyterLab's menu, tool bar and status bar
const WORDS = 24; // characters: a longer cell is a sentence
const LEAST = 0.72; // of the picture's own width: 12 points become 9
export default {
  render({ model, el }) {
    el.classList.add("labkit-screen");
    const make = (tag, cls, parent = el) => {
      const node = document.createElement(tag);
      node.className = cls;
      parent.append(node);
      return node;
    };
    const img = make("img", "labkit-picture");
    const status = make("div", "labkit-status");
    status.setAttribute("role", "status");
    const scroll = make("div", "labkit-scroll");
    scroll.tabIndex = 0; // a wide table scrolls by keyboard too
    scroll.setAttribute("role", "region");
    const table = make("table", "labkit-table", scroll);
    const call = make("code", "labkit-call");

    let url = null;
    const paint = async () => {
      const next = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
      const probe = new Image(); // decode first, so that the old picture stays until the new one is ready
      probe.src = next;
      try { await probe.decode(); } catch (_) { /* replaced meanwhile */ }
      if (url) URL.revokeObjectURL(url);
      url = img.src = next;
      img.alt = model.get("alt");
      fit();
    };
    // Controls and picture fit on the screen together, as long as the picture's text stays legible.
    const fit = () => {
      const width = model.get("width"), shape = img.naturalWidth / img.naturalHeight || 1;
      const above = img.getBoundingClientRect().top - el.closest(".labkit-panel")?.getBoundingClientRect().top;
      img.style.width = `min(${width}px, max(${LEAST * width}px, (100vh - ${BARS + (above || 0)}px) * ${shape}))`;
    };
    const write = () => {
      const { header, rows, prediction } = model.get("table");
      table.replaceChildren();
      const line = (cells, section, tag) => {
        const tr = make("tr", "", section);
        cells.forEach((cell, i) => {
          const text = cell.text ?? cell;
          const heads = text && (i === 0 || tag === "th"); // an empty corner is no heading
          const td = make(heads ? "th" : "td", "", tr);
          td.textContent = text;
          if (i && tag === "td" && text.length > WORDS) td.classList.add("labkit-words");
          if (heads) td.scope = tag === "th" ? "col" : "row";
          if (cell.was) {
            td.append(" ");
            make("span", "labkit-was", td).textContent = `(was ${cell.was})`;
          }
          if (cell.changed) td.classList.add("labkit-changed");
        });
      };
      line(header, make("thead", "", table), "th");
      const body = make("tbody", "", table);
      rows.forEach((row) => line(row, body, "td"));
      if (prediction?.length) {
        line([prediction.join(" ")], make("tfoot", "", table), "td");
        table.tFoot.rows[0].cells[0].colSpan = header.length;
      }
    };
    const say = () => {
      status.textContent = model.get("status");
      status.classList.toggle("labkit-error", model.get("failed"));
      call.textContent = model.get("call");
    };
    model.on("change:png", paint);
    model.on("change:table", write);
    model.on("change:status change:failed change:call", say);
    paint(); write(); say();

    // ipywidgets draws its sliders without an accessible name, and lets their read-outs be typed into to no effect:
    // lend each handle its label and read-out, and take the read-out out of the Tab order.
    const name = (root) => root.querySelectorAll(".widget-slider").forEach((slider) => {
      const handle = slider.querySelector("[role=slider]");
      const readout = slider.querySelector(".widget-readout");
      handle?.setAttribute("aria-label", slider.querySelector(".widget-label")?.textContent ?? "");
      handle?.setAttribute("aria-valuetext", readout?.textContent ?? "");
      if (readout?.contentEditable === "true") readout.contentEditable = "false";
    });

    let detach = null;
    const attach = () => {
      const root = el.closest(".labkit-panel");
      if (!root) return requestAnimationFrame(attach);
      const title = root.querySelector(".labkit-title")?.textContent || "panel";
      root.setAttribute("role", "group");
      root.setAttribute("aria-label", title);
      scroll.setAttribute("aria-label", `Numbers of ${title}`);
      table.setAttribute("aria-label", title);
      const observer = new MutationObserver(() => name(root));
      observer.observe(root, { subtree: true, childList: true, characterData: true, attributeFilter: ["contenteditable"] });
      const keys = (event) => keepKeys(root, event); // of keys.js
      window.addEventListener("keydown", keys, true); // before JupyterLab, which listens on the document
      detach = () => { observer.disconnect(); window.removeEventListener("keydown", keys, true); };
      name(root);
      fit();
    };
    requestAnimationFrame(attach);
    return () => { detach?.(); if (url) URL.revokeObjectURL(url); };
  },
};
