// Shows a command of the command line, with a button that copies it.

import { el, setText } from "./dom.js";

export function copyable(command) {
  const code = el("code", {}, command);
  const button = el("button", { type: "button", "aria-label": `Copy ${command}` }, "Copy");
  button.addEventListener("click", () => copy(command, code, button));
  return el("div", { class: "command" }, code, button);
}

async function copy(text, code, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, "Copied");
  } catch {
    getSelection().selectAllChildren(code);
    setText(button, "Selected");
  }
  setTimeout(() => setText(button, "Copy"), 2000);
}
