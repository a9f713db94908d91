// What a page does besides being read: copy a command, and remember which tables of numbers were open.
"use strict";

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) break; // the browser has none where the page did not come over a secure line
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    const text = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = text; }, 1500);
  });
}
