"use strict";

// The theme puts the button that copies code into a landmark, each with the same (empty) name, and
// a wide table into a box that scrolls, which a keyboard does not reach.
function mend() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    }
  }
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) {
    nav.setAttribute("role", "presentation");
  }
}

new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
// A table may be wide since the window is narrow, or the phone was turned.
addEventListener("resize", mend);

// A link to a heading inside a tab opens the tab.
function openTab() {
  const target = document.getElementById(location.hash.slice(1));
  const block = target?.closest(".tabbed-block");
  if (block) {
    const number = [...block.parentElement.children].indexOf(block);
    block.closest(".tabbed-set").querySelectorAll(":scope > input")[number].click();
    target.scrollIntoView();
  }
}

openTab();
addEventListener("hashchange", openTab);
