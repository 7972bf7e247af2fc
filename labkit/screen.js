// The part of a panel that the kernel paints: picture, status line, table, call.
// Everything is built once; a slider move only replaces attributes and text.
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
    scroll.setAttribute("aria-label", "numbers of this panel");
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
      img.style.width = model.get("width") + "px";
    };
    const write = () => {
      const { header, rows } = model.get("table");
      table.replaceChildren();
      const line = (cells, section, tag) => {
        const tr = make("tr", "", section);
        cells.forEach((cell, i) => {
          const td = make(i === 0 ? "th" : tag, "", tr);
          td.textContent = cell.text ?? cell;
          if (tag === "th" && i > 0) td.scope = "col";
          if (i === 0) td.scope = tag === "th" ? "col" : "row";
          if (cell.was) make("span", "labkit-was", td).textContent = ` (was ${cell.was})`;
          if (cell.was) td.classList.add("labkit-changed");
        });
      };
      line(header, make("thead", "", table), "th");
      const body = make("tbody", "", table);
      rows.forEach((row) => line(row, body, "td"));
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

    // ipywidgets draws its sliders without an accessible name: lend each handle its label and read-out.
    let observer = null;
    const name = (root) => root.querySelectorAll(".widget-slider").forEach((slider) => {
      const handle = slider.querySelector("[role=slider]");
      const text = (cls) => slider.querySelector(cls)?.textContent ?? "";
      handle?.setAttribute("aria-label", text(".widget-label"));
      handle?.setAttribute("aria-valuetext", text(".widget-readout"));
    });
    const attach = () => {
      const root = el.closest(".labkit-panel");
      if (!root) return requestAnimationFrame(attach);
      observer = new MutationObserver(() => name(root));
      observer.observe(root, { subtree: true, childList: true, characterData: true });
      name(root);
    };
    requestAnimationFrame(attach);
    return () => { observer?.disconnect(); if (url) URL.revokeObjectURL(url); };
  },
};
