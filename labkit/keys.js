// In front of the code of a panel and of an exercise.
// JupyterLab takes plain keys before a list, a check box or a button gets them: arrows would leave the panel, "b" would
// insert a cell.  Keep them for the control that has the focus; Ctrl-S, Shift-Enter, Escape stay JupyterLab's.
// Enter in a field presses the button beside it: Commit, or Check.
const keepKeys = (root, event) => {
  const control = event.target;
  if (!root?.contains(control)) return;
  const theirs = event.ctrlKey || event.metaKey || event.altKey || event.key === "Escape" || (event.shiftKey && event.key === "Enter");
  control.toggleAttribute("data-lm-suppress-shortcuts", !theirs);
  if (event.key !== "Enter" || theirs || event.isComposing || !control.matches(".widget-text input")) return;
  control.dispatchEvent(new Event("change", { bubbles: true })); // what was typed goes to the kernel first
  control.closest(".widget-hbox").querySelector("button").click();
};
