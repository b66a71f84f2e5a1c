// The colours: those of the system, or those that the person chose.

const NAME = "podium-theme";
const ORDER = ["system", "light", "dark"];

export const theme = () => (ORDER.includes(localStorage.getItem(NAME)) ? localStorage.getItem(NAME) : "system");

export function applyTheme() {
  document.documentElement.dataset.theme = theme();
}

export function nextTheme() {
  localStorage.setItem(NAME, ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length]);
  applyTheme();
  return theme();
}
