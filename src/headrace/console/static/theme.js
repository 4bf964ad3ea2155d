// Before anything is painted: the theme that was chosen, else the system's.
const kept = localStorage.getItem("headrace-theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
