import { Menu } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import { useLayoutEffect, useRef, useState, type ReactNode } from 'react';
import classes from './square.module.css';

interface MoreProps {
  /** What a screen reader calls the button. */
  label: string;
  /** With a frame and as high as the buttons beside it. */
  framed?: boolean;
  /** What is in the menu; asked for when it is opened first. */
  children: () => ReactNode;
}

/** A button with three dots. Most of the many in a list are never pressed, so the menu is made when its own is. */
export function More({ label, framed = false, children }: MoreProps) {
  const [opened, setOpened] = useState<boolean>();
  const target = useRef<HTMLButtonElement>(null);
  const made = opened !== undefined;
  // The button is another element once there is a menu: whoever was on the one is on the other.
  useLayoutEffect(() => {
    if (made) target.current?.focus();
  }, [made]);
  const comeBack = () => {
    const at = document.activeElement;
    if (!at || at === document.body || at.closest('[role=menu]')) target.current?.focus();
  };
  const change = (open: boolean) => {
    setOpened(open);
    if (!open) requestAnimationFrame(comeBack);
  };
  const shared = { type: 'button', className: classes.button, 'data-framed': framed || undefined, 'data-large': framed || undefined, 'aria-label': label } as const;
  const dots = <IconDots size={18} aria-hidden />;
  if (!made) {
    return (
      <button {...shared} aria-haspopup="menu" aria-expanded={false} onClick={() => setOpened(true)}>
        {dots}
      </button>
    );
  }
  return (
    // A menu that is left while it opens may still take the keyboard while it fades, and then is gone with it.
    <Menu position="bottom-end" opened={opened} onChange={change} onExitTransitionEnd={comeBack}>
      <Menu.Target>
        {/* Whoever is quicker than the menu, which takes the keyboard a moment after it opens, can leave it as well. */}
        <button {...shared} ref={target} onKeyDown={(event) => opened && event.key === 'Escape' && change(false)}>
          {dots}
        </button>
      </Menu.Target>
      <Menu.Dropdown>{children()}</Menu.Dropdown>
    </Menu>
  );
}
