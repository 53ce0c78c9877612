"use strict";
// Pages read well without this file: it adds sorting, filters and, on a phone, folds.
document.documentElement.classList.add("js");

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
  if (matchMedia("(max-width: 48rem)").matches) {
    document.querySelectorAll("details[data-fold]").forEach((part) => { part.open = false; });
  }
  document.querySelectorAll("form[data-filter]").forEach(makeFilter);
});

function makeSortable(table) {
  const parent = table.tBodies[0];
  const items = [...parent.rows];
  const headers = [...table.tHead.rows[0].cells];
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  const read = (item, column) => {
    const cell = item.cells[column];
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
        const order = numeric ? Number(a.value.replace("−", "-")) - Number(b.value.replace("−", "-")) : collator.compare(a.value, b.value);
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
  const items = [...document.querySelectorAll("[data-item]")];
  const texts = new Map(items.map((item) => [item, item.textContent.toLowerCase()]));

  const apply = () => {
    const wanted = new FormData(form);
    const verdict = wanted.get("verdict");
    const words = wanted.get("text").toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of items) {
      item.hidden =
        (verdict && !item.dataset.verdicts.split(" ").includes(verdict)) ||
        !words.every((word) => texts.get(item).includes(word));
    }
    const shown = items.filter((item) => !item.hidden).length;
    form.querySelector("output").textContent =
      shown === items.length ? `${shown} claims` : `${shown} of ${items.length} claims`;
    for (const list of document.querySelectorAll(".claims")) {
      list.hidden = !list.querySelector("[data-item]:not([hidden])");
    }
  };

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
}
