"use strict";
// Pages read well without this file: it adds sorting, filters and rows that fold.
document.documentElement.classList.add("js");

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
  document.querySelectorAll("form[data-filter]").forEach(makeFilter);
  document.querySelectorAll("tbody.entry").forEach(makeFoldable);
  document.querySelectorAll("[data-open-all]").forEach(makeOpenAll);
  const legend = document.querySelector("details.legend");
  if (legend && window.matchMedia("(max-width: 47.99rem)").matches) legend.open = false;
  openTarget();
});
window.addEventListener("hashchange", openTarget);

function makeSortable(table) {
  const grouped = table.tBodies.length > 1 || table.querySelector("tbody.entry") !== null;
  const items = grouped ? [...table.tBodies] : [...table.tBodies[0].rows];
  const parent = grouped ? table : table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells];
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  const read = (item, column) => {
    const cell = (grouped ? item.rows[0] : item).cells[column];
    return cell.dataset.value ?? cell.textContent.trim();
  };

  const sort = (column, direction) => {
    const numeric = headers[column].dataset.sort === "number";
    const keyed = items.map((item, place) => ({ item, place, value: read(item, column) }));
    if (direction) {
      const sign = direction === "ascending" ? 1 : -1;
      keyed.sort((a, b) => {
        // What has no value stays at the end in both directions.
        if (a.value === "" || b.value === "") return (a.value === "") - (b.value === "") || a.place - b.place;
        const order = numeric ? Number(a.value) - Number(b.value) : collator.compare(a.value, b.value);
        return sign * order || a.place - b.place;
      });
    }
    keyed.forEach(({ item }) => parent.append(item));
    headers.forEach((header, index) => {
      if (index === column && direction) header.setAttribute("aria-sort", direction);
      else header.removeAttribute("aria-sort");
    });
  };

  headers.forEach((header, column) => {
    if (!header.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.title = "Sort; the third press brings back the paper's order";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const now = header.getAttribute("aria-sort");
      sort(column, now === "ascending" ? "descending" : now === "descending" ? "" : "ascending");
    });
  });
}

function makeFilter(form) {
  const name = form.dataset.filter;
  const items = [...document.querySelectorAll(`[data-items="${name}"] [data-item]`)];
  const texts = new Map(items.map((item) => [item, item.textContent.toLowerCase()]));
  const output = form.querySelector("output");

  const apply = () => {
    const wanted = new FormData(form);
    const paper = wanted.get("paper") || "";
    const verdict = wanted.get("verdict") || "";
    const words = (wanted.get("text") || "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of items) {
      const fits =
        (!paper || item.dataset.paper === paper) &&
        (!verdict || item.dataset.verdicts.split(" ").includes(verdict)) &&
        words.every((word) => texts.get(item).includes(word));
      item.hidden = !fits;
      shown += fits;
    }
    for (const group of document.querySelectorAll("[data-group]")) {
      group.hidden = !group.querySelector("[data-item]:not([hidden])");
    }
    output.textContent = shown === items.length ? `${shown} rows` : `${shown} of ${items.length} rows`;
  };

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
}

function setOpen(entry, open) {
  entry.querySelector("button.toggle").setAttribute("aria-expanded", String(open));
  entry.querySelector("tr.more").hidden = !open;
}

function makeFoldable(entry) {
  const button = entry.querySelector("button.toggle");
  button.hidden = false;
  setOpen(entry, false);
  button.addEventListener("click", () => setOpen(entry, button.getAttribute("aria-expanded") !== "true"));
  // The whole line is a target for the mouse; the button is the one for the keyboard.
  entry.rows[0].addEventListener("click", (event) => {
    if (event.target.closest("a, button") || String(window.getSelection())) return;
    setOpen(entry, button.getAttribute("aria-expanded") !== "true");
  });
}

function makeOpenAll(button) {
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    document.querySelectorAll("tbody.entry").forEach((entry) => setOpen(entry, open));
    button.setAttribute("aria-pressed", String(open));
    button.textContent = open ? "Close all rows" : "Open all rows";
  });
}

function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.matches("tbody.entry")) setOpen(target, true);
}
