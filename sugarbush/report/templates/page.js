"use strict";
(() => {
  const PAGE = 25;
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  document.body.classList.add("js");

  // Tables: every heading becomes a button that sorts its column.
  const valueOf = (cell) => (cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim());
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const [x, y] = [Number(a.replace(/,/g, "")), Number(b.replace(/,/g, ""))];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  };
  function sortBy(table, heading) {
    const place = Array.from(heading.parentNode.children).indexOf(heading);
    const rising = heading.getAttribute("aria-sort") !== "ascending";
    const sign = rising ? 1 : -1;
    const keyed = all("tbody tr", table).map((row) => [valueOf(row.children[place]), row]);
    // Rows without a value come last in both directions.
    keyed.sort(([a], [b]) => (a === "" || b === "" ? 1 : sign) * compare(a, b));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
    all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
    table.dispatchEvent(new CustomEvent("sorted"));
  }
  for (const table of all("table.sortable")) {
    for (const heading of all("thead th", table)) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sortBy(table, heading));
    }
  }

  // The text browser.
  const table = document.getElementById("browser");
  if (!table) return;
  const search = document.getElementById("search");
  const ancestors = document.getElementById("ancestors");
  const more = document.getElementById("more");
  const filters = all("[data-filter]");
  const rows = all("tbody tr", table);
  const words = new Map(rows.map((row) => [row, row.querySelector(".clip").textContent.toLowerCase()]));
  let shown = PAGE;
  const matching = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return all("tbody tr", table).filter((row) =>
      (row.dataset.final === "1" || (ancestors && ancestors.checked))
      && filters.every((filter) => !filter.value || row.getAttribute("data-" + filter.dataset.filter) === filter.value)
      && wanted.every((word) => words.get(row).includes(word)));
  };
  function show() {
    const found = matching();
    const visible = new Set(found.slice(0, shown));
    rows.forEach((row) => row.classList.toggle("away", !visible.has(row)));
    document.getElementById("count").textContent = found.length.toLocaleString("en");
    more.hidden = found.length <= shown;
  }
  const restart = () => { shown = PAGE; show(); };
  search.addEventListener("input", restart);
  filters.forEach((filter) => filter.addEventListener("change", restart));
  if (ancestors) ancestors.addEventListener("change", restart);
  search.form.addEventListener("submit", (event) => event.preventDefault());
  table.addEventListener("sorted", show);
  more.addEventListener("click", () => { shown += 4 * PAGE; show(); });
  show();

  // The reader: one whole text, and its ancestors.
  const reader = document.getElementById("reader");
  const byKey = new Map(rows.map((row) => [row.dataset.key, row]));
  const textOf = (row) => row.querySelector(".clip").textContent;
  let current = null;
  function made(tag, text, inside) {
    const node = document.createElement(tag);
    node.textContent = text;
    inside.append(node);
    return node;
  }
  function lineage(row) {
    const chain = [];
    for (let at = byKey.get(row.dataset.parent); at && !chain.includes(at); at = byKey.get(at.dataset.parent)) chain.push(at);
    return chain;
  }
  function read(row) {
    current = row;
    const found = matching();
    const place = found.indexOf(row);
    document.getElementById("reader-place").textContent =
      "Written " + row.dataset.origin + (place >= 0 ? " · " + (place + 1) + " of " + found.length : "");
    document.getElementById("reader-text").textContent = textOf(row);
    const chips = document.getElementById("reader-chips");
    chips.replaceChildren();
    all(".chips span", row).forEach((chip) => made("span", chip.title + ": " + chip.textContent, chips));
    const lines = document.getElementById("reader-lineage");
    lines.replaceChildren();
    const chain = lineage(row);
    if (chain.length) {
      made("h3", "Ancestors, nearest first", lines);
      const list = made("ol", "", lines);
      for (const parent of chain) {
        const item = made("li", "", list);
        made("b", "Written " + parent.dataset.origin, item);
        item.append(textOf(parent));
      }
    }
    document.getElementById("previous").disabled = place <= 0;
    document.getElementById("next").disabled = place < 0 || place === found.length - 1;
    if (!reader.open) reader.showModal();
    reader.scrollTop = 0;
  }
  function step(by) {
    const found = matching();
    const row = found[found.indexOf(current) + by];
    if (row) read(row);
  }
  table.addEventListener("click", (event) => {
    const button = event.target.closest(".open");
    if (button) read(button.closest("tr"));
  });
  document.getElementById("previous").addEventListener("click", () => step(-1));
  document.getElementById("next").addEventListener("click", () => step(1));
  document.getElementById("close").addEventListener("click", () => reader.close());
  reader.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  reader.addEventListener("click", (event) => { if (event.target === reader) reader.close(); });
  reader.addEventListener("close", () => {
    const button = current && current.querySelector(".open");
    if (button) button.focus();
  });
})();
