import { Group, Modal } from '@mantine/core';
import { useEffect, useRef, type ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { keepKeyboard } from './keyboard';
import { messages } from './messages';

export interface DialogProps {
  opened: boolean;
  onClose: () => void;
  title: ReactNode;
  size?: string | number;
  /** Whether a click beside it closes it: yes, unless said otherwise. */
  beside?: boolean;
  /** Fills a narrow screen. */
  fullScreen?: boolean;
  children: ReactNode;
}

/** Where the keyboard was last outside of dialogs and menus, which are gone when it has to go back. */
let outside: HTMLElement | null = null;
document.addEventListener('focusin', ({ target }) => {
  if (target instanceof HTMLElement && !target.closest('[role=dialog], [role=menu]')) outside = target;
});

/** Gives the keyboard back when a dialog is gone: the library does so only for one that stays and is closed. */
function useFocusBack(opened: boolean) {
  const before = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!opened) return undefined;
    const active = document.activeElement;
    // A dialog over another one goes back into that, any other to what opened it or its menu.
    before.current = active instanceof HTMLElement && active.closest('[role=dialog]') ? active : outside;
    // What opened it may be gone with what it has deleted: then to the page.
    return () => keepKeyboard(before.current);
  }, [opened]);
}

/** A dialog. Its head is no `header` element: a page has one banner only. */
export function Dialog({ opened, onClose, title, size, beside, fullScreen, children }: DialogProps) {
  const t = useTexts(messages);
  useFocusBack(opened);
  return (
    <Modal.Root opened={opened} onClose={onClose} size={size ?? 'md'} fullScreen={fullScreen ?? false} closeOnClickOutside={beside ?? true} centered>
      <Modal.Overlay backgroundOpacity={0.45} blur={2} />
      <Modal.Content radius={fullScreen ? 0 : 'lg'}>
        <Group justify="space-between" wrap="nowrap" px="lg" pt="md" pb="xs">
          <Modal.Title fw={650}>{title}</Modal.Title>
          <Modal.CloseButton aria-label={t('close')} />
        </Group>
        <Modal.Body px="lg">{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
