// What pages do beside working without it.
"use strict";

// A form that was just sent is not sent again: of a double click the browser shows the second answer
// alone, and what is shown once stands in the first. After some seconds the answer was stopped.

for (const form of document.querySelectorAll("form[method=post]")) {
  let sent = -Infinity;
  form.addEventListener("submit", (event) => {
    if (event.timeStamp - sent < 5000) {
      event.preventDefault();
    } else {
      sent = event.timeStamp;
    }
  });
}

// Buttons that copy. Without this file they stay hidden, and the values can be selected.

for (const button of document.querySelectorAll("[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = "value" in source ? source.value : source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Over http a browser offers no clipboard: what is marked can be copied by key.
      if ("select" in source) {
        source.select();
      } else {
        getSelection().selectAllChildren(source);
      }
      if (!document.execCommand("copy")) {
        return;
      }
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 2000);
  });
}

// A button whose answer is shown in its place on this page, so that what was typed stays.
// Without this file the answer is a page of its own.
for (const button of document.querySelectorAll("[data-into]")) {
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    const place = document.getElementById(button.dataset.into);
    const label = button.textContent;
    button.disabled = true;
    button.textContent = "Asking …";
    try {
      const answer = await fetch(button.hasAttribute("formaction") ? button.formAction : button.form.action, {
        method: "POST",
        body: new FormData(button.form),
        headers: { Accept: "text/html" },
      });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const told = page.getElementById(button.dataset.into);
      if (!told) {
        // Another page than this one: the session is over, or the hub is away.
        location.reload();
        return;
      }
      place.replaceChildren(...told.children);
      place.scrollIntoView({ block: "nearest" });
    } catch {
      place.textContent = "The hub cannot be reached; try again.";
    }
    button.disabled = false;
    button.textContent = label;
  });
}

// Times: how long ago, and the time here; the pointer shows UTC. Without this file they are UTC.

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const ago = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });

function relative(date) {
  const seconds = Math.round((date - Date.now()) / 1000);
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS[3];
  return Math.abs(seconds) < 1 ? "now" : ago.format(Math.trunc(seconds / size), unit);
}

// The time here, with the day unless it is today, and with the year unless it is this one.
function here(date, exact) {
  const now = new Date();
  const year = date.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  const today = date.toDateString() === now.toDateString();
  return date.toLocaleString(undefined, {
    ...(today ? {} : { month: "short", day: "numeric", ...year }),
    hour: "numeric",
    minute: "2-digit",
    ...(exact ? { second: "2-digit" } : {}),
  });
}

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) {
      continue;
    }
    const at = document.createElement("span");
    at.className = "time-here";
    at.textContent = here(date, "exact" in time.dataset);
    time.title = `${date.toISOString().replace("T", " ").replace("Z", "")} UTC`;
    time.replaceChildren(`${relative(date)} `, at);
  }
}

localize(document);
setInterval(() => document.hidden || localize(document), 15000);

// A part of a page that updates itself: its own address is asked for the same part. It rests while
// the page is hidden, while somebody works in it, and half an hour after the last key or click.

const REST_AFTER_MS = 30 * 60 * 1000;
let usedAt = Date.now();
for (const used of ["pointerdown", "keydown"]) {
  addEventListener(used, () => (usedAt = Date.now()), { passive: true });
}

for (const place of document.querySelectorAll("[data-live]")) {
  const every = Number(place.dataset.every || 5) * 1000;
  const button = document.createElement("button");
  let paused = false;
  let shown = "";
  button.type = "button";
  button.className = "btn btn-link btn-sm live-switch";
  button.textContent = "Pause updates";
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
  });
  place.before(button);

  const busy = () =>
    paused ||
    document.hidden ||
    Date.now() - usedAt > REST_AFTER_MS ||
    place.contains(document.activeElement) ||
    place.querySelector("details[open]") !== null ||
    !getSelection().isCollapsed;

  const update = async () => {
    let took = 0;
    if (!busy()) {
      const began = Date.now();
      try {
        const answer = await fetch(place.dataset.live, { headers: { Accept: "text/html" } });
        const text = await answer.text();
        const page = new DOMParser().parseFromString(text, "text/html");
        // A fragment is the part alone; a page holds it under the same id.
        const part = page.getElementById(place.id) ?? (page.querySelector("main") ? null : page.body);
        if (answer.redirected || (answer.ok && part === null)) {
          // Another page than this one: the session is over.
          location.reload();
          return;
        }
        if (answer.ok && part.innerHTML !== shown && !busy()) {
          const checked = new Set(
            [...place.querySelectorAll("input[name=id]:checked")].map((box) => box.value),
          );
          shown = part.innerHTML;
          place.replaceChildren(...part.childNodes);
          for (const box of place.querySelectorAll("input[name=id]")) {
            box.checked = checked.has(box.value);
          }
          localize(place);
          place.dispatchEvent(new Event("crmhub:updated"));
        }
        // A part that has ended says so, and rests from then on.
        if (part && "ended" in part.dataset) {
          button.remove();
          return;
        }
      } catch {
        // The hub is away for a moment; the next time it may answer.
      }
      took = Date.now() - began;
    }
    setTimeout(update, Math.max(every, 20 * took));
  };
  setTimeout(update, every);
}

// A checkbox above the checkboxes of a list, which checks them all.

for (const form of document.querySelectorAll("[data-select]")) {
  const arrange = () => {
    const head = form.querySelector("thead th");
    const boxes = () => form.querySelectorAll("input[name=id]");
    if (!head || !boxes().length) {
      return;
    }
    const all = document.createElement("input");
    all.type = "checkbox";
    all.className = "form-check-input";
    all.setAttribute("aria-label", "Select all on this page");
    all.addEventListener("change", () => {
      for (const box of boxes()) {
        box.checked = all.checked;
      }
    });
    head.replaceChildren(all);
  };
  arrange();
  form.querySelector("[data-live]")?.addEventListener("crmhub:updated", arrange);
}
