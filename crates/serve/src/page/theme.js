// Before anything is drawn: the reader's choice of light or dark, if there is one. Else the system's holds.
"use strict";
try {
  const theme = localStorage.getItem("ucuz.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing has no choice to remember.
}
