import { ActionIcon, Group, Input, Select, Text } from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconTrash } from '@tabler/icons-react';
import { useEffect, useRef, type ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import { moved, textsOf } from './order';
import classes from './several.module.css';

interface SeveralProps {
  shared: { label: string; description: ReactNode; required: boolean; disabled: boolean; error: ReactNode; name: string };
  /** The components that there are; null: they are not known yet. */
  choices: { value: string; label: string; disabled?: boolean }[] | null;
  most: number | undefined;
  value: unknown;
  onChange: (ids: string[]) => void;
}

/** Several components in an order: each is added, moved and taken out again. */
export function Several({ shared: { label, description, required, disabled, error, name }, choices, most, value, onChange }: SeveralProps) {
  const t = useTexts(messages);
  const ids = textsOf(value);
  const ground = useRef<HTMLDivElement>(null);
  // An element that is moved in the page loses the keyboard: whoever pressed a button of it is on it again.
  const next = useRef<{ id: string; act: string }>(undefined);
  useEffect(() => {
    const wanted = next.current;
    if (!wanted) return;
    next.current = undefined;
    const row = [...(ground.current?.querySelectorAll('li') ?? [])].find((one) => one.dataset['id'] === wanted.id);
    const button = row?.querySelector<HTMLElement>(`[data-act=${wanted.act}]:not(:disabled)`) ?? row?.querySelector<HTMLElement>('button:not(:disabled)');
    (button ?? ground.current?.querySelector<HTMLElement>('input'))?.focus();
  });
  const labelOf = (id: string) => choices?.find((one) => one.value === id)?.label ?? id;
  const move = (place: number, by: -1 | 1) => {
    next.current = { id: ids[place] ?? '', act: by < 0 ? 'up' : 'down' };
    onChange(moved(ids, place, by));
  };
  const takeOut = (place: number) => {
    next.current = { id: ids[place + 1] ?? ids[place - 1] ?? '', act: 'out' };
    onChange(ids.filter((_, at) => at !== place));
  };
  const left = (choices ?? []).filter((one) => !ids.includes(one.value));
  return (
    <Input.Wrapper ref={ground} label={label} description={description} error={error} required={required} labelElement="div" role="group" aria-label={label}>
      {ids.length > 0 && (
        <ol className={classes.list}>
          {ids.map((id, place) => (
            <li key={id} data-id={id} className={classes.row}>
              <Text size="sm" className={classes.name}>
                {place + 1}. {labelOf(id)}
              </Text>
              <Group gap={2} wrap="nowrap">
                {ids.length > 1 && (
                  <>
                    <ActionIcon data-act="up" variant="subtle" color="gray" aria-label={t('moveUp', { name: labelOf(id) })} disabled={disabled || place === 0} onClick={() => move(place, -1)}>
                      <IconArrowUp size={16} />
                    </ActionIcon>
                    <ActionIcon data-act="down" variant="subtle" color="gray" aria-label={t('moveDown', { name: labelOf(id) })} disabled={disabled || place === ids.length - 1} onClick={() => move(place, 1)}>
                      <IconArrowDown size={16} />
                    </ActionIcon>
                  </>
                )}
                <ActionIcon data-act="out" variant="subtle" color="gray" aria-label={t('takeOut', { name: labelOf(id) })} disabled={disabled} onClick={() => takeOut(place)}>
                  <IconTrash size={16} />
                </ActionIcon>
              </Group>
            </li>
          ))}
        </ol>
      )}
      {(left.length > 0 || ids.length === 0) && (
        <Select
          mt={6}
          name={name}
          aria-label={t('addTo', { label })}
          placeholder={t(left.length === 0 ? 'noneToAdd' : 'pickToAdd')}
          searchable={left.length > 8}
          disabled={disabled || left.length === 0 || (most !== undefined && ids.length >= most)}
          error={error !== undefined && error !== null}
          data={left}
          value={null}
          onChange={(chosen) => chosen !== null && onChange([...ids, chosen])}
        />
      )}
    </Input.Wrapper>
  );
}
