// Buttons that copy. Without this file they stay hidden, and the values can be selected.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
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
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 2000);
  });
}
