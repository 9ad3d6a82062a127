"use strict";

// The address in the samples of the document.
const EXAMPLE = "https://hub.example.com";
const element = document.getElementById("reference");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const followTheSystem = () => document.documentElement.classList.toggle("dark-mode", dark.matches);

// What Swagger UI draws is not quite usable with a screen reader: it puts links into buttons, leaves
// out a level of headings, and puts parts of the page outside of all landmarks.
const accessible = () => {
  const section = (label) => (Original, { React }) => (props) =>
    React.createElement(
      "section",
      { "aria-label": label },
      React.createElement(Original, props),
    );
  return {
    wrapComponents: {
      DeepLink: (_, { React }) => ({ text }) => React.createElement("span", null, text),
      FilterContainer: section("Filter"),
      InfoContainer: section("About this API"),
      responses: (Original, { React }) => (props) =>
        React.createElement(
          React.Fragment,
          null,
          React.createElement(samples(React), props),
          React.createElement(Original, props),
        ),
      operations: (Original, { React }) => (props) =>
        React.createElement(
          React.Fragment,
          null,
          React.createElement("h2", { className: "operations-title" }, "Operations"),
          React.createElement(Original, props),
        ),
    },
  };
};

// The samples of an operation, above its responses; the language stays chosen for all operations.
let language = 0;
const samples = (React) => {
  samples.component ??= function Samples({ specSelectors, path, method }) {
    const [chosen, choose] = React.useState(language);
    const found = specSelectors.specJson().getIn(["paths", path, method, "x-codeSamples"]);
    if (!found) return null;
    const source = found.getIn([chosen, "source"]).replaceAll(EXAMPLE, location.origin);
    const button = (one, number) =>
      React.createElement(
        "button",
        {
          key: number,
          type: "button",
          className: "btn",
          "aria-pressed": number === chosen,
          onClick: () => choose((language = number)),
        },
        one.get("label"),
      );
    return React.createElement(
      "div",
      { className: "samples" },
      React.createElement("h4", null, "Sample"),
      React.createElement("div", { className: "samples-languages" }, found.map(button).toArray()),
      React.createElement("pre", null, source),
    );
  };
  return samples.component;
};

// The menu at the side: a group for each tag, a link for each operation.
function fill(menu, system) {
  const spec = system.specSelectors.specJson().toJS();
  const groups = new Map(spec.tags.map(({ name }) => [name, []]));
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      if (!operation.operationId) continue;
      const link = document.createElement("a");
      link.href = `#/${operation.tags[0]}/${operation.operationId}`;
      link.title = `${method.toUpperCase()} ${path}`;
      link.textContent = operation.operationId;
      link.addEventListener("click", () => open(system, operation.tags[0], operation.operationId));
      groups.get(operation.tags[0]).push(link);
    }
  }
  for (const [name, links] of groups) {
    const group = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = name;
    group.append(summary, ...links);
    menu.append(group);
  }
  menu.hidden = false;
}

function open({ layoutActions }, tag, id) {
  layoutActions.show(["operations-tag", tag], true);
  layoutActions.show(["operations", tag, id], true);
  // Swagger UI draws the operation first.
  requestAnimationFrame(() => {
    document.getElementById(`operations-${tag}-${id}`)?.scrollIntoView();
  });
}

// Elements that Swagger UI leaves without a name, or out of reach of the keyboard.
function complete() {
  for (const select of element.querySelectorAll("select:not([aria-label])")) {
    const row = select.closest("[data-param-name]");
    select.setAttribute("aria-label", row ? row.dataset.paramName : "Media type");
  }
  for (const table of element.querySelectorAll("table.responses-table:not([aria-label])")) {
    const path = table.closest(".opblock").querySelector(".opblock-summary-path");
    const method = table.closest(".opblock").querySelector(".opblock-summary-method");
    table.setAttribute("aria-label", `Responses of ${method.textContent} ${path.textContent}`);
  }
  for (const code of element.querySelectorAll("pre:not([tabindex])")) {
    code.tabIndex = 0;
  }
  for (const filter of element.querySelectorAll(".operation-filter-input:not([aria-label])")) {
    filter.setAttribute("aria-label", "Filter by tag or path");
  }
}

followTheSystem();
dark.addEventListener("change", followTheSystem);
new MutationObserver(complete).observe(element, { childList: true, subtree: true });
const reference = SwaggerUIBundle({
  url: element.dataset.document,
  domNode: element,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [accessible],
  layout: "BaseLayout",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  filter: true,
  // By default Swagger UI sends the document to a validator on another host.
  validatorUrl: null,
  onComplete: () => fill(document.getElementById("menu"), reference.getSystem()),
});
