"use strict";
// Sorting by a column: the largest numbers first, names in the file's order first; empty cells last.
for (const head of document.querySelectorAll("th[aria-sort]")) {
  head.addEventListener("click", () => {
    const first = head.classList.contains("text") ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    for (const each of head.parentElement.children) if (each.ariaSort) each.ariaSort = "none";
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const column = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => {
      const text = row.cells[column].dataset.v;
      return { row, value: text === "" ? null : Number(text) };
    });
    rows.sort((a, b) =>
      a.value === null || b.value === null ? (a.value === null) - (b.value === null) : sign * (a.value - b.value));
    body.replaceChildren(...rows.map((entry) => entry.row));
  });
}
