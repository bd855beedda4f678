"use strict";
(() => {
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

  // A table that is wider than its column says so, and the keyboard can scroll it.
  const sized = new ResizeObserver((entries) => entries.forEach(({target}) => {
    const wider = target.scrollWidth > target.clientWidth + 1;
    target.classList.toggle("wider", wider);
    if (wider) Object.entries({tabindex: 0, role: "region", "aria-label": "Wide table"}).forEach(([name, value]) => target.setAttribute(name, value));
    else ["tabindex", "role", "aria-label"].forEach((name) => target.removeAttribute(name));
  }));
  all(".scroll").forEach((node) => sized.observe(node));

  // The line of code gets the full address of the texts, so that it works in every folder.
  const code = document.getElementById("code");
  const copy = document.getElementById("copy");
  const file = document.querySelector(".button.main");
  // The address of `sugarbush app` contains a token, so its page keeps the name of the file.
  if (code && file && !file.getAttribute("href").startsWith("data:") && location.hostname !== "127.0.0.1") {
    const {protocol, pathname, href} = new URL(file.href);
    const path = decodeURIComponent(pathname).replace(/^\/(?=[A-Za-z]:)/, "");
    const address = protocol === "file:" ? path : href;
    code.textContent = code.textContent.replace(JSON.stringify(file.download), () => JSON.stringify(address));
  }
  if (code && navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener("click", () => navigator.clipboard.writeText(code.textContent).then(() => { copy.textContent = "Copied"; }));
  }

  // The text browser. Only the rows near the visible part of the list are in the document.
  const list = document.getElementById("browser");
  if (!list) return;
  const SPARE = 6;
  const byId = (id) => document.getElementById(id);
  const content = JSON.parse(byId("browser-content").textContent);
  const rows = content.rows.map((values) => Object.fromEntries(values.map((value, i) => [content.columns[i], value])));
  const sheet = list.firstElementChild;
  const [search, order, ancestors, reader] = ["search", "order", "ancestors", "reader"].map(byId);
  const filters = all("[data-filter]");
  let found = [];
  let active = 0;
  let pattern = null;
  let drawn = "";

  const attributesOf = (row) => content.attributes.flatMap(([name, values], i) => (row.codes[i] < 0 ? [] : [[name, values[row.codes[i]]]]));
  const plural = (count, what) => count.toLocaleString("en") + " " + what + (count === 1 ? "" : "s");
  function made(tag, inside, text) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    inside.append(node);
    return node;
  }
  function marked(inside, text) {
    (pattern ? text.split(pattern) : [text]).forEach((part, i) => (i % 2 ? made("mark", inside, part) : inside.append(part)));
  }

  function match() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = filters.filter((filter) => filter.value).map((filter) => [filter.dataset.filter, Number(filter.value)]);
    found = rows.filter((row) =>
      (row.final || (ancestors && ancestors.checked))
      && chosen.every(([field, value]) => (field in row ? row[field] : row.codes[field]) === value)
      && wanted.every((word) => (row.lower ??= row.text.toLowerCase()).includes(word)));
    const by = order.value.replace("-", "");
    const sign = order.value === by ? 1 : -1;
    // Rows without a value come last in both directions.
    if (by) found.sort((a, b) => (a[by] === null) - (b[by] === null) || sign * (a[by] - b[by]));
    const escaped = wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    pattern = wanted.length ? new RegExp("(" + escaped.join("|") + ")", "gi") : null;
    byId("count").textContent = found.length.toLocaleString("en");
    sheet.style.setProperty("--rows", found.length);
    list.scrollTop = active = 0;
    drawn = "";
    draw();
  }
  const rowHeight = () => parseFloat(getComputedStyle(list).getPropertyValue("--row"));
  function draw() {
    const height = rowHeight();
    const first = Math.max(0, Math.floor(list.scrollTop / height) - SPARE);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + SPARE);
    if (drawn === (drawn = [first, last, active].join())) return;
    sheet.replaceChildren();
    for (let place = first; place < last; place += 1) option(place);
    if (active >= first && active < last) list.setAttribute("aria-activedescendant", "row-" + active);
    else list.removeAttribute("aria-activedescendant");
  }
  function option(place) {
    const row = found[place];
    const node = made("div", sheet);
    const about = {role: "option", id: "row-" + place, "aria-posinset": place + 1, "aria-setsize": found.length, "aria-selected": place === active};
    Object.entries(about).forEach(([name, value]) => node.setAttribute(name, value));
    node.style.setProperty("--place", place);
    node.classList.toggle("ancestor", !row.final);
    const at = pattern ? row.text.search(pattern) : 0;
    const start = at > 150 ? row.text.lastIndexOf(" ", at - 50) + 1 : 0;
    marked(made("p", node), (start ? "… " : "") + row.text.slice(start, start + 700));
    const facts = attributesOf(row).map(([, value]) => value);
    if (content.methods.length > 1) facts.unshift(content.methods[row.method]);
    facts.push(plural(row.words, "word"));
    if (row.votes !== null) facts.push(content.scored[row.method] ? "score " + row.votes : plural(row.votes, "vote"));
    made("small", node, facts.join(" · "));
  }
  function go(place) {
    const height = rowHeight();
    active = Math.max(0, Math.min(found.length - 1, place));
    list.scrollTop = Math.max(Math.min(list.scrollTop, active * height), (active + 1) * height - list.clientHeight);
    draw();
  }

  // The reader: one whole text, its row of the DP table, and how it was made.
  function pairs(inside, title, entries) {
    if (!entries.length) return;
    made("h3", inside, title);
    const node = made("dl", inside);
    node.className = "pairs";
    entries.forEach(([name, value]) => { made("dt", node, name); made("dd", node, value); });
  }
  function texts(inside, title, entries) {
    if (!entries.length) return;
    const node = made("details", inside);
    made("summary", node, title);
    const items = made("ol", node);
    entries.forEach(([name, text]) => { const item = made("li", items); made("b", item, name); item.append(text); });
  }
  function lineage(row) {
    const chain = new Set();
    for (let at = rows[row.parent]; at && !chain.has(at); at = rows[at.parent]) chain.add(at);
    return Array.from(chain);
  }
  function read() {
    const row = found[active];
    if (!row) return;
    byId("reader-place").textContent = (active + 1).toLocaleString("en") + " of " + plural(found.length, "text");
    const text = byId("reader-text");
    text.replaceChildren();
    marked(text, row.text);
    const inside = byId("reader-made");
    inside.replaceChildren();
    pairs(inside, row.final ? "Labels" : "Requested values", attributesOf(row));
    const how = [["method", content.methods[row.method]], ["written", content.origins[row.origin]]];
    if (row.votes !== null) how.push([content.scored[row.method] ? "noisy score, in votes" : "noisy votes", row.votes]);
    pairs(inside, "How it was made", how);
    texts(inside, plural(row.examples.length, "donated example") + " in its prompt", row.examples.map((i) => ["Example " + (i + 1), content.donated[i]]));
    const chain = lineage(row).map((parent) => ["Written " + content.origins[parent.origin], parent.text]);
    texts(inside, plural(chain.length, "ancestor") + ", nearest first", chain);
    byId("previous").disabled = active === 0;
    byId("next").disabled = active === found.length - 1;
    if (!reader.open) reader.showModal();
    reader.scrollTop = 0;
  }
  function step(by) {
    if (!found[active + by]) return;
    go(active + by);
    read();
  }

  search.form.addEventListener("submit", (event) => event.preventDefault());
  search.form.addEventListener("input", match);
  list.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(list);
  list.addEventListener("click", (event) => {
    const node = event.target.closest("[role=option]");
    if (node) { go(node.getAttribute("aria-posinset") - 1); read(); }
  });
  list.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / rowHeight()) - 1);
    const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
    if (event.key in moves) go(active + moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") read();
    else return;
    event.preventDefault();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); list.focus(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || reader.open || event.target.closest("input, select")) return;
    event.preventDefault();
    search.focus();
  });
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("close").addEventListener("click", () => reader.close());
  reader.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  reader.addEventListener("click", (event) => { if (event.target === reader) reader.close(); });
  reader.addEventListener("close", () => list.focus());
  match();
})();
