"use strict";

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
SwaggerUIBundle({
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
});
