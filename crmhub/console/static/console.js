// What pages do beside working without it.
"use strict";

// The page's language, and the texts of this file in it.
const { lang } = document.documentElement;
const words = document.currentScript.dataset;

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

function enableCopying(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    enableCopy(button);
  }
}

function enableCopy(button) {
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
    button.textContent = words.copied;
    setTimeout(() => (button.textContent = label), 2000);
  });
}

enableCopying(document);

// Shows other content in a place. The focus stays on the element that has the same id there, or
// that stands where the focused one stood.
function replaceContent(place, content) {
  const controls = () => [...place.querySelectorAll("a[href], button, input, select, textarea, summary")];
  const focused = document.activeElement;
  const index = controls().indexOf(focused);
  place.replaceChildren(...content);
  if (index >= 0) {
    const same = focused.id && document.getElementById(focused.id);
    (same || controls()[index] || place.closest("main"))?.focus({ preventScroll: true });
  }
}

// The field with the first error has the cursor, also where it is folded away.
const wrong = document.querySelector("main [aria-invalid=true]");
if (wrong) {
  for (let fold = wrong.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  wrong.focus();
}

// A button whose answer is shown in its place on this page, so that what was typed stays.
// Without this file the answer is a page of its own.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-into]");
  if (button) {
    event.preventDefault();
    if (button.getAttribute("aria-disabled") === "true") {
      return;
    }
    const place = document.getElementById(button.dataset.into);
    const label = button.textContent;
    // A disabled button would lose the focus.
    button.setAttribute("aria-disabled", "true");
    button.textContent = words.waiting;
    try {
      const answer = await fetch(button.hasAttribute("formaction") ? button.formAction : button.form.action, {
        method: "POST",
        body: new FormData(button.form),
        headers: { Accept: "text/html" },
      });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const told = page.getElementById(button.dataset.into);
      if (!told) {
        // Another page than this one: the session is over, or the hub is unavailable.
        location.reload();
        return;
      }
      replaceContent(place, told.children);
      enableCopying(place);
      showFaults(page);
      place.scrollIntoView({ block: "nearest" });
    } catch {
      place.textContent = words.unreachable;
    }
    button.removeAttribute("aria-disabled");
    button.textContent = label;
  }
});

// A rule is added to the field map in place, so that the CRM is not asked again.
// Without this file the page comes again with one more.
for (const button of document.querySelectorAll("[data-add]")) {
  button.addEventListener("click", (event) => {
    event.preventDefault();
    const section = document.getElementById(button.dataset.add);
    const index = section.querySelectorAll(".rule").length;
    const added = document.getElementById(`new-${button.dataset.add}`).cloneNode(true);
    added.innerHTML = added.innerHTML
      .replaceAll("__index__", index)
      .replaceAll("__number__", index + 1);
    section.querySelector(".rules-none")?.remove();
    const rule = added.content.firstElementChild;
    section.querySelector(".rules-end").before(rule);
    rule.querySelector("input").focus();
  });
}

// A part of the page that goes on changing is fetched again, until it says that it is complete.
// Without this file a link leads to the page again.
for (const part of document.querySelectorAll("[data-refresh]")) {
  const refresh = async () => {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(part.id);
      if (!fresh || !("refresh" in fresh.dataset)) {
        location.reload();
        return;
      }
      replaceContent(part, fresh.childNodes);
    } catch {
      // The hub cannot be reached just now; the next time may succeed.
    }
    setTimeout(refresh, 1000 * part.dataset.refresh);
  };
  setTimeout(refresh, 1000 * part.dataset.refresh);
}

// What the answer says about the fields stands beside those on this page, too.
function showFaults(page) {
  for (const fault of document.querySelectorAll("[data-fault]")) {
    const text = page.getElementById(fault.id)?.textContent ?? "";
    const field = document.getElementById(fault.dataset.fault);
    if (!field || fault.textContent === text) {
      continue;
    }
    fault.textContent = text;
    field.classList.toggle("is-invalid", text !== "");
    field.setAttribute("aria-invalid", String(text !== ""));
    const others = (field.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && id !== fault.id);
    field.setAttribute("aria-describedby", [...(text ? [fault.id] : []), ...others].join(" "));
    if (text && field.closest("details")) {
      field.closest("details").open = true;
    }
  }
}

// Buttons that check, or uncheck, all boxes of a list. Without this file they stay hidden.
for (const [attribute, checked] of [["check", true], ["uncheck", false]]) {
  for (const button of document.querySelectorAll(`[data-${attribute}]`)) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const list = document.getElementById(button.dataset[attribute]);
      for (const box of list.querySelectorAll("input[type=checkbox]:not(:disabled)")) {
        box.checked = checked;
      }
    });
  }
}

// A choice that other parts of the page follow: they are fetched for the chosen value.
// Without this file a button does that.
for (const select of document.querySelectorAll("[data-follow]")) {
  const parts = select.dataset.follow.split(" ");
  const fallback = select.form.querySelector("[data-without-script]");
  let latest = 0;
  fallback.hidden = true;

  const follow = async () => {
    const turn = ++latest;
    const address = new URL(select.dataset.followUrl, location.href);
    address.searchParams.set(select.name, select.value);
    const places = parts.map((id) => document.getElementById(id));
    places.forEach((place) => place.setAttribute("aria-busy", "true"));
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (turn !== latest) {
        return;
      }
      const found = parts.map((id) => page.getElementById(id));
      if (found.includes(null)) {
        // Another page than this one: the session is over.
        location.assign(address);
        return;
      }
      places.forEach((place, i) => {
        replaceContent(place, found[i].childNodes);
        enableCopying(place);
      });
      document.getElementById("outcome")?.replaceChildren();
      history.replaceState(null, "", address);
    } catch {
      fallback.hidden = false;
    }
    places.forEach((place) => place.removeAttribute("aria-busy"));
  };
  select.addEventListener("change", follow);
  // A browser may bring back the choice of an earlier visit.
  addEventListener("pageshow", () => {
    if (select.form.elements.shown?.value !== select.value) {
      follow();
    }
  });
}

// Times: how long ago, and the time in the zone of the profile or of this browser; the pointer shows
// UTC. The cookie tells the hub the zone, in which the days of filters are.

const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
let timeZone = document.documentElement.dataset.timeZone || browserZone;
try {
  new Intl.DateTimeFormat("en", { timeZone });
} catch {
  // The hub may know newer zones than this browser.
  timeZone = browserZone;
}
if (browserZone) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `crmhub_zone=${browserZone}; path=/console; max-age=31536000; samesite=lax${secure}`;
}

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const ago = new Intl.RelativeTimeFormat(lang, { numeric: "always", style: "short" });
const justNow = new Intl.RelativeTimeFormat(lang, { numeric: "auto" }).format(0, "second");

// The page's language as the reader's country writes it, such as es-MX.
const region = navigator.languages.find((one) => one.split("-")[0] === lang) ?? lang;

function relative(date) {
  const seconds = Math.round((date - Date.now()) / 1000);
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS[3];
  return Math.abs(seconds) < 1 ? justNow : ago.format(Math.trunc(seconds / size), unit);
}

// The time here, with the day unless it is today, and with the year unless it is this one.
function here(date, exact) {
  // As 2026-11-26.
  const day = (at) => at.toLocaleDateString("sv-SE", { timeZone });
  const now = day(new Date());
  const year = day(date).slice(0, 4) === now.slice(0, 4) ? {} : { year: "numeric" };
  const today = day(date) === now;
  return date.toLocaleString(region, {
    timeZone,
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
  button.textContent = words.pause;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? words.resume : words.pause;
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
          replaceContent(place, part.childNodes);
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
        // The hub is unavailable; the next time it may answer.
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
    all.setAttribute("aria-label", words.selectAll);
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

// A named period and chosen days exclude each other.

for (const period of document.querySelectorAll("[data-period]")) {
  const [when, ...days] = period.querySelectorAll("select, input[type=date]");
  when.addEventListener("change", () => days.forEach((day) => (day.value = "")));
  for (const day of days) {
    day.addEventListener("change", () => (when.value = ""));
  }
}
