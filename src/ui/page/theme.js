// Before the first paint: the theme that was chosen last. Without one the system's is shown.
const theme = localStorage.getItem('penstock-theme');
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
