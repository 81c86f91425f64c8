// Adds a button that copies to every command. Without it, a click selects the
// command (user-select in style.css). The place for it is kept free by the style,
// so nothing moves when it comes.
"use strict";
for (const frame of document.querySelectorAll(".copyable")) {
  const code = frame.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  // Its name says which command; what became of it is said by the status.
  button.setAttribute("aria-label", "Copy: " + frame.getAttribute("aria-label"));
  const status = document.createElement("span");
  status.className = "unseen";
  status.setAttribute("role", "status");
  let timer = 0;
  button.addEventListener("click", async () => {
    let copied = false;
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied = true;
    } catch {
      // No clipboard for pages over plain HTTP: the older way.
      const range = document.createRange();
      range.selectNodeContents(code);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      copied = document.execCommand("copy");
    }
    button.textContent = status.textContent = copied ? "Copied" : "Selected";
    clearTimeout(timer);
    timer = setTimeout(() => { button.textContent = "Copy"; status.textContent = ""; }, 2000);
  });
  frame.append(button, status);
}
