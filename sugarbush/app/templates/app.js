"use strict";
// Shows the lines of a running job, and loads the page again when it has ended.
(() => {
  const panel = document.getElementById("job");
  if (!panel) return;
  const at = (id) => document.getElementById(id);
  const lines = at("job-lines");
  lines.scrollTop = lines.scrollHeight;
  if (panel.dataset.state !== "running") return;
  async function look() {
    try {
      const answer = await fetch("job.json");
      if (!answer.ok) throw new Error(String(answer.status));
      const job = await answer.json();
      if (job.state !== "running") return location.reload();
      const bottom = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 30;
      if (lines.textContent !== job.lines) lines.textContent = job.lines;
      if (bottom) lines.scrollTop = lines.scrollHeight;
      if (at("job-status").textContent !== job.status) at("job-status").textContent = job.status;
      at("job-charged").textContent = job.charged;
      const bar = at("job-bar");
      if (job.total) { bar.max = job.total; bar.value = job.done; }
    } catch (error) {
      at("job-status").textContent = "The program `sugarbush app` does not answer. Was it ended?";
    }
    setTimeout(look, 1000);
  }
  setTimeout(look, 1000);
})();
