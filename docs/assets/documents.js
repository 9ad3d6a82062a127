"use strict";

// The theme puts the button that copies code into a landmark, each with the same (empty) name, and
// a wide table into a box that scrolls, which a keyboard does not reach.
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    }
  }
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) {
    nav.setAttribute("role", "presentation");
  }
}).observe(document.body, { childList: true, subtree: true });
