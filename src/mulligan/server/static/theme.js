/* Runs before the page is drawn, so that a chosen theme never flashes into the other one. */
"use strict";
{
  const chosen = localStorage.getItem("mulligan.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
