import { Tabs } from '@mantine/core';
import { useEffect, useRef, type ReactNode } from 'react';
import classes from './tabs.module.css';

interface TabRowProps {
  /** Tabs that look like buttons, without a line below them. */
  pills?: boolean;
  /** The tab that is chosen: it is in sight. */
  chosen: string;
  /** What a screen reader calls the row, where the page's title does not say it. */
  label?: string;
  children: ReactNode;
}

/** A row of tabs, one line on every screen: where not all have room, as on a phone, the row scrolls. */
export function TabRow({ chosen, label, pills = false, children }: TabRowProps) {
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = row.current;
    if (!element) return undefined;
    const show = () => {
      const tab = element.querySelector('[aria-selected=true]')?.getBoundingClientRect();
      const around = element.getBoundingClientRect();
      // The row alone moves, and not the page that somebody may have scrolled.
      if (tab) element.scrollLeft += Math.min(0, tab.left - around.left) + Math.max(0, tab.right - around.right);
    };
    // A phone that is turned has room for other tabs.
    const seen = new ResizeObserver(show);
    seen.observe(element);
    return () => seen.disconnect();
  }, [chosen]);
  return (
    <Tabs.List ref={row} className={classes.row} data-lined={!pills || undefined} aria-label={label}>
      {children}
    </Tabs.List>
  );
}
