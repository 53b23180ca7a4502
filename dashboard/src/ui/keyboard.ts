import { useEffect, useRef, useState } from 'react';

/** Gives the keyboard to the page, or to `other` on it, when what had it is gone or can no longer have it. */
export function keepKeyboard(other?: HTMLElement | null) {
  requestAnimationFrame(() => {
    const at = document.activeElement;
    if (at && at !== document.body) return;
    (other?.isConnected ? other : document.getElementById('content'))?.focus({ preventScroll: true });
  });
}

/**
 * For rows that are added and removed one by one: the keyboard goes to the first field of a row that is added,
 * and to the button that adds when one is removed. Rows have `data-row`, that button has `data-add`.
 */
export function useRowKeyboard() {
  const list = useRef<HTMLDivElement>(null);
  const [wanted, setWanted] = useState<{ added: boolean }>();
  useEffect(() => {
    if (!wanted) return;
    const rows = list.current?.querySelectorAll('[data-row]') ?? [];
    const field = rows[rows.length - 1]?.querySelector<HTMLElement>('input');
    const button = list.current?.querySelector<HTMLElement>('[data-add]:not(:disabled)');
    (wanted.added ? field : (button ?? field))?.focus();
  }, [wanted]);
  return { list, added: () => setWanted({ added: true }), removed: () => setWanted({ added: false }) };
}
