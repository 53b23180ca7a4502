import { Button, Card, Group, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { messages } from './messages';

interface ChosenProps {
  count: number;
  /** How many there are to choose from. */
  all: number;
  chooseAll: () => void;
  clear: () => void;
  /** The buttons of what can be done with them. */
  children: ReactNode;
}

/** What can be done with the rows that are ticked; it stays in sight while one scrolls. */
export function Chosen({ count, all, chooseAll, clear, children }: ChosenProps) {
  const t = useTexts(messages);
  if (count === 0) return null;
  return (
    <Card padding="xs" component="section" aria-label={t('chosenWhat')} style={{ position: 'sticky', insetBlockStart: 64, zIndex: 3 }}>
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Text size="sm" fw={600} role="status">
            {t('chosen', { count })}
          </Text>
          {count < all && (
            <Button size="compact-xs" variant="subtle" onClick={chooseAll}>
              {t('chooseAll', { count: all })}
            </Button>
          )}
          <Button size="compact-xs" variant="subtle" onClick={clear}>
            {t('chooseNone')}
          </Button>
        </Group>
        <Group gap="xs">{children}</Group>
      </Group>
    </Card>
  );
}
