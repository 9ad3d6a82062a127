"use strict";

// The theme puts the button that copies code into a landmark, each with the same (empty) name.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) {
    nav.setAttribute("role", "presentation");
  }
}).observe(document.body, { childList: true, subtree: true });
