// What a page does besides being read: copy a command, show the newest runs first, and lead out to Airflow
// where Airflow does not show it in a frame, out of which no link gets.
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

// The newest run is at the right end of a drawing that is wider than its box.
for (const box of document.querySelectorAll("[data-newest]")) box.scrollLeft = box.scrollWidth;

if (window.self === window.top) {
  for (const link of document.querySelectorAll("[data-unframed]")) link.hidden = false;
}
