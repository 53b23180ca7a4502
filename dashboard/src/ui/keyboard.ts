/** Gives the keyboard to the page, or to `other` on it, when what had it is gone or can no longer have it. */
export function keepKeyboard(other?: HTMLElement | null) {
  requestAnimationFrame(() => {
    const at = document.activeElement;
    if (at && at !== document.body) return;
    (other?.isConnected ? other : document.getElementById('content'))?.focus({ preventScroll: true });
  });
}
