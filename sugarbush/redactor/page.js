"use strict";
// Offsets count code points, as in Python; a JavaScript string counts UTF-16 units.
const at = (id) => document.getElementById(id);
let state = null, words = [], spans = [], from = 0, to = 0, dragging = false;

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  const answer = await fetch(path, options);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || `refused (${answer.status})`);
  return found;
}

function wordsOf(text) {
  const found = [], letters = Array.from(text);
  let start = -1;
  for (let i = 0; i <= letters.length; i++) {
    const blank = i === letters.length || /\s/.test(letters[i]);
    if (!blank && start < 0) start = i;
    if (blank && start >= 0) {
      // Punctuation around a word is a word of its own, so that a label need not contain it.
      let a = start, b = i;
      while (a < b && /[.,;:!?"'()<>[\]{}“”]/.test(letters[a])) a++;
      while (b > a && /[.,;:!?"'()<>[\]{}“”]/.test(letters[b - 1])) b--;
      for (const [x, y] of [[start, a], [a, b], [b, i]]) if (y > x) found.push({ start: x, end: y });
      start = -1;
    }
  }
  return { found, letters };
}

const spanOf = (word) => spans.find((s) => s.start < word.end && word.start < s.end);

function draw() {
  const { found, letters } = wordsOf(state.text);
  words = found;
  const box = at("text");
  box.replaceChildren();
  let place = 0;
  words.forEach((word, i) => {
    const gap = document.createElement("span");
    const before = i ? spanOf(words[i - 1]) : undefined;
    gap.textContent = letters.slice(place, word.start).join("");
    if (before && before === spanOf(word)) gap.className = "span";
    const element = document.createElement("span");
    element.textContent = letters.slice(word.start, word.end).join("");
    const own = spanOf(word), here = i >= Math.min(from, to) && i <= Math.max(from, to);
    element.className = ["word", own ? "span" : "", here ? "here" : ""].join(" ");
    element.dataset.place = String(i);
    box.append(gap, element);
    if (own && (i + 1 === words.length || spanOf(words[i + 1]) !== own)) {
      const kind = document.createElement("span");
      kind.className = "kind";
      kind.textContent = " " + own.label;
      box.append(kind);
    }
    place = word.end;
  });
  at("place").textContent = `${state.number + 1} of ${state.count}, ${state.done} labelled`;
  at("use").textContent = state.use === "train" ? "for training, with suggestions" : "for measuring, without suggestions";
}

async function show(number) {
  if (number < 0 || (state && number >= state.count)) return say("No more texts.");
  state = await ask(`texts/${number}`);
  spans = state.spans; from = to = 0;
  at("kinds").replaceChildren(...state.kinds.map((kind, i) => {
    const button = document.createElement("button");
    button.innerHTML = `<kbd>${i + 1}</kbd> `;
    button.append(kind);
    button.onclick = () => mark(kind);
    return button;
  }));
  draw();
  at("text").focus();
}

const say = (message) => { at("message").textContent = message; };

function mark(label) {
  if (!words.length) return;
  const start = words[Math.min(from, to)].start, end = words[Math.max(from, to)].end;
  spans = spans.filter((s) => s.end <= start || s.start >= end);
  if (label) spans.push({ start, end, label });
  from = to = Math.max(from, to);
  draw();
}

async function save() {
  await ask(`texts/${state.number}`, { spans });
  state.done += 1;
  say("Saved.");
  if (state.number + 1 < state.count) await show(state.number + 1);
  else { await show(state.number); say("That was the last text."); }
}

async function stop() {
  await ask("stop", {});
  document.querySelector("main").textContent = "Finished. You can close this page.";
}

const guarded = (work) => () => Promise.resolve(work()).catch((error) => say(error.message));
const actions = { back: () => show(state.number - 1), skip: () => show(state.number + 1), save, stop };
for (const [id, work] of Object.entries(actions)) at(id).onclick = guarded(work);

document.addEventListener("keydown", (event) => {
  if (!state || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
  const kind = state.kinds[Number(event.key) - 1];
  if (step) {
    to = Math.max(0, Math.min(words.length - 1, to + step));
    if (!event.shiftKey) from = to;
    draw();
  } else if (kind) mark(kind);
  else if (event.key === "Backspace" || event.key === "Delete") mark("");
  else if (event.key === "Enter") event.repeat || guarded(save)(); // a held key would save unread texts
  else if (event.key === "n") guarded(actions.skip)();
  else if (event.key === "p") guarded(actions.back)();
  else if (event.key === "q") guarded(stop)();
  else return;
  event.preventDefault();
});
at("text").addEventListener("mousedown", (event) => {
  if (event.target.dataset.place) { from = to = Number(event.target.dataset.place); dragging = true; draw(); event.preventDefault(); }
});
at("text").addEventListener("mouseover", (event) => {
  if (dragging && event.target.dataset.place) { to = Number(event.target.dataset.place); draw(); }
});
document.addEventListener("mouseup", () => { dragging = false; });
guarded(() => show(0))();
