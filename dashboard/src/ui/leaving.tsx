import { Button, Group, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { createContext, useCallback, useContext, useMemo, useRef, useState, type ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { Dialog, type DialogProps } from './dialog';
import { messages } from './messages';

/** Tells the form around this one that something was typed: of forms in forms only the outermost asks. */
export const Around = createContext<(() => void) | undefined>(undefined);

interface Leaving {
  /** Something was typed or chosen that is not saved. */
  changed: () => void;
  /** It is saved, or its user gave it up: the page may be left. */
  done: () => void;
  /** The question; to be drawn beside the form. */
  question: ReactNode;
}

/**
 * Asks before a page is left whose form has something that is not saved: by Back and Forward of the browser,
 * by a link and, in the browser's own words, by closing or reloading the window.
 *
 * `links: false` leaves links out, for a form that covers those of its page.
 */
export function useLeaving({ links }: { links: boolean }): Leaving {
  const t = useTexts(messages);
  const around = useContext(Around);
  const unsaved = useRef(false);
  const changed = useCallback(() => {
    unsaved.current = true;
    around?.();
  }, [around]);
  const done = useCallback(() => {
    unsaved.current = false;
  }, []);
  // One object as long as the form is there: with a new one the router would forget what it asks.
  const options = useMemo(
    () => ({
      disabled: around !== undefined,
      enableBeforeUnload: () => unsaved.current,
      shouldBlockFn: ({ action, current, next }: { action: string; current: { pathname: string }; next: { pathname: string } }) => unsaved.current && current.pathname !== next.pathname && (links || !['PUSH', 'REPLACE'].includes(action)),
      withResolver: true as const,
    }),
    [around, links],
  );
  const asked = useBlocker(options);
  const question = (
    <Dialog opened={asked.status === 'blocked'} onClose={() => asked.reset?.()} title={t('leaveTitle')}>
      <Stack>
        <Text size="sm">{t('leave')}</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={() => asked.proceed?.()}>
            {t('leaveAction')}
          </Button>
          <Button data-autofocus onClick={() => asked.reset?.()}>
            {t('stay')}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
  return { changed, done, question };
}

/**
 * A dialog with something to fill in. Once something is typed, a click beside it does not close it, and Back
 * and closing the window ask first. Escape and its own buttons close it at once.
 */
export function FormDialog({ opened, children, ...given }: DialogProps) {
  const { changed, done, question } = useLeaving({ links: false });
  const [typed, setTyped] = useState(false);
  if (!opened && typed) {
    done();
    setTyped(false);
  }
  const note = useCallback(() => {
    changed();
    setTyped(true);
  }, [changed]);
  return (
    <>
      <Dialog opened={opened} beside={!typed} {...given}>
        <div onInput={note}>
          <Around value={note}>{children}</Around>
        </div>
      </Dialog>
      {question}
    </>
  );
}
