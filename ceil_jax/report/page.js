"use strict";
// Everything an example contains is put on the page as text (textContent), never as HTML.
(() => {
  const tables = JSON.parse(document.getElementById("data").textContent);
  if (!tables.length) return;
  const get = (id) => document.getElementById(id);
  const PAGE = 200;
  const FILTERS = [
    ["all queries", () => true],
    ["A right, B wrong", (a, b) => right(a) && !right(b)],
    ["A wrong, B right", (a, b) => !right(a) && right(b)],
    ["both wrong", (a, b) => !right(a) && !right(b)],
    ["both right", (a, b) => right(a) && right(b)],
    ["A scores higher", (a, b) => a[1] > b[1]],
    ["B scores higher", (a, b) => a[1] < b[1]],
    ["different answers", (a, b) => a[2] !== b[2]],
    ["no example in common", (a, b) => !common(a, b).size],
  ];
  const state = { table: 0, a: 0, b: 0, filter: 0, search: "", query: -1 };
  let found = [];
  let shown = PAGE;

  const fixed = (number, digits) => (number === null ? "–" : number.toFixed(digits).replace("-", "−"));
  const right = (row) => row[1] >= 1;
  const common = (a, b) => {
    const ids = new Set(b[3].map((example) => example[0]));
    return new Set(a[3].map((example) => example[0]).filter((id) => ids.has(id)));
  };
  const rows = () => {
    const { runs } = tables[state.table];
    return [runs[state.a].rows, runs[state.b].rows];
  };

  function element(tag, text, properties = {}, children = []) {
    const made = Object.assign(document.createElement(tag), properties);
    if (text !== null) made.textContent = text;
    made.append(...children);
    return made;
  }

  function options(select, labels, chosen) {
    select.replaceChildren(...labels.map((label, i) => element("option", label, { value: i })));
    select.value = chosen;
  }

  function verdict(row) {
    if (right(row)) return ["right", "✓ right"];
    return ["wrong", row[1] > 0 ? `✗ score ${fixed(row[1], 2)}` : "✗ wrong"];
  }

  function matches(a, b) {
    if (!state.search) return true;
    const { texts } = tables[state.table];
    const places = [a[0], ...a[3].map((e) => e[0]), ...b[3].map((e) => e[0])];
    const where = [a[2], b[2], ...places.flatMap((place) => texts[place])];
    return where.some((text) => text.toLowerCase().includes(state.search));
  }

  function search() {
    const [a, b] = rows();
    const keep = FILTERS[state.filter][1];
    found = [...a.keys()].filter((i) => keep(a[i], b[i]) && matches(a[i], b[i]));
    if (!found.includes(state.query)) state.query = found.length ? found[0] : -1;
    shown = Math.max(PAGE, found.indexOf(state.query) + 1);
    const count = (test) => a.filter((row, i) => test(row, b[i])).length;
    const each = FILTERS.slice(1, 5).map(([label, test]) => `${label}: ${count(test)}`);
    get("counts").textContent = `${found.length} of ${a.length} queries. ${each.join(" · ")}`;
    draw();
  }

  function draw() {
    const [a, b] = rows();
    const { texts } = tables[state.table];
    get("list").replaceChildren(...found.slice(0, shown).map((i) => {
      const marks = [a[i], b[i]].map((row, side) => {
        const [kind] = verdict(row);
        return element("span", `${"AB"[side]}${kind === "right" ? "✓" : "✗"} `, { className: kind });
      });
      const item = element("li", null, { id: `query-${i}` }, [
        element("span", null, { className: "marks" }, marks),
        element("span", texts[a[i][0]][1].slice(0, 120)),
      ]);
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", i === state.query);
      item.addEventListener("click", () => choose(i));
      return item;
    }));
    get("more").hidden = found.length <= shown;
    detail();
    remember();
  }

  function choose(i) {
    const before = get(`query-${state.query}`);
    if (before) before.setAttribute("aria-selected", false);
    state.query = i;
    if (found.indexOf(i) >= shown) {
      shown = found.indexOf(i) + PAGE;
      draw();
    }
    const item = get(`query-${i}`);
    item.setAttribute("aria-selected", true);
    item.scrollIntoView({ block: "nearest" });
    get("list").setAttribute("aria-activedescendant", item.id);
    detail();
    remember();
  }

  function side(name, run, row, both) {
    const { texts } = tables[state.table];
    const [kind, said] = verdict(row);
    const gains = row[3].some((example) => example[2] !== null);
    const header = [
      ["place", "in the order of choice; ● is chosen in both"],
      ["relevance", "nearness to the query, on the method's own scale"],
      ...(gains ? [["gain", "what the example adds to the set's score, the log determinant"]] : []),
      ["example", ""],
      ["answer", "the example's own answer"],
    ];
    const lines = row[3].map(([place, relevance, gain], rank) => element(
      "tr", null, { className: both.has(place) ? "both" : "" }, [
        element("td", `${rank + 1}${both.has(place) ? " ●" : ""}`),
        element("td", fixed(relevance, 3)),
        ...(gains ? [element("td", fixed(gain, 2))] : []),
        element("td", texts[place][1], { className: "text", title: texts[place][0] }),
        element("td", texts[place][2], { className: "text" }),
      ],
    ));
    return element("div", null, {}, [
      element("h3", `${name}: ${run.label}`),
      element("p", null, {}, [
        element("b", row[2] || "(nothing)", { className: "text" }),
        element("span", ` ${said}`, { className: kind }),
      ]),
      element("div", null, { className: "wide" }, [element("table", null, {}, [
        element("thead", null, {}, [element("tr", null, {}, header.map(([h, title]) => element("th", h, { scope: "col", title })))]),
        element("tbody", null, {}, lines),
      ])]),
    ]);
  }

  function detail() {
    const pane = get("detail");
    if (state.query < 0) {
      pane.replaceChildren(element("p", "No query is like that."));
      return;
    }
    const { runs, texts } = tables[state.table];
    const [a, b] = rows().map((all) => all[state.query]);
    const [id, input, gold] = texts[a[0]];
    const both = common(a, b);
    const sides = [side("A", runs[state.a], a, both)];
    if (state.a !== state.b) sides.push(side("B", runs[state.b], b, both));
    pane.replaceChildren(
      element("h3", id),
      element("p", input, { className: "text" }),
      element("p", null, {}, [element("span", "right answer: "), element("b", gold, { className: "text" })]),
      element("div", null, { className: "sides" }, sides),
    );
  }

  function remember() {
    const { table, a, b, filter, search: words, query } = state;
    const hash = new URLSearchParams({ table, a, b, filter, search: words, query });
    history.replaceState(null, "", `#${hash}`);
  }

  function recall() {
    const hash = new URLSearchParams(location.hash.slice(1));
    const number = (name, below, otherwise) => {
      const value = Number(hash.get(name) ?? NaN);
      return Number.isInteger(value) && value >= 0 && value < below ? value : otherwise;
    };
    state.table = number("table", tables.length, 0);
    const { runs } = tables[state.table];
    state.a = number("a", runs.length, runs.length - 1);
    state.b = number("b", runs.length, Math.max(0, runs.length - 2));
    state.filter = number("filter", FILTERS.length, 0);
    state.query = number("query", runs[0].rows.length, -1);
    state.search = (hash.get("search") ?? "").toLowerCase();
    get("search").value = state.search;
  }

  function labels() {
    const names = tables[state.table].runs.map((run) => run.label);
    options(get("table"), tables.map((table) => table.title), state.table);
    options(get("a"), names, state.a);
    options(get("b"), names, state.b);
    options(get("filter"), FILTERS.map(([label]) => label), state.filter);
  }

  function step(by) {
    const place = found.indexOf(state.query) + by;
    if (place >= 0 && place < found.length) choose(found[place]);
  }

  for (const name of ["a", "b", "filter"]) {
    get(name).addEventListener("change", (event) => {
      state[name] = Number(event.target.value);
      search();
    });
  }
  get("table").addEventListener("change", (event) => {
    const { length } = tables[Number(event.target.value)].runs;
    Object.assign(state, { table: Number(event.target.value), a: length - 1, b: Math.max(0, length - 2), query: -1 });
    labels();
    search();
  });
  get("search").addEventListener("input", (event) => {
    state.search = event.target.value.toLowerCase();
    search();
  });
  get("swap").addEventListener("click", () => {
    [state.a, state.b] = [state.b, state.a];
    labels();
    search();
  });
  get("more").addEventListener("click", () => {
    shown += PAGE;
    draw();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") document.activeElement.blur();
    if (event.target.matches("input, select, summary")) return;
    const inList = event.target === get("list");
    const action = {
      j: () => step(1),
      k: () => step(-1),
      ArrowDown: inList ? () => step(1) : null,
      ArrowUp: inList ? () => step(-1) : null,
      "/": () => get("search").focus(),
      x: () => get("swap").click(),
    }[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
  recall();
  labels();
  get("browser").hidden = false;
  search();
})();
