import { Checkbox, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import classes from './rows.module.css';

interface RowsProps {
  /** What the table lists, for screen readers. */
  label: string;
  heads: string[];
  rows: { key: string; cells: ReactNode[] }[];
  /** Rows can be ticked: which are, what is told of a change, and what a row is called. */
  choice?: { ticked: ReadonlySet<string>; choose: (keys: string[]) => void; nameOf: (key: string) => string };
}

/** A table that a narrow screen can scroll. The first column names the row. */
export function Rows({ label, heads, rows, choice }: RowsProps) {
  const t = useTexts(messages);
  const ticked = rows.filter(({ key }) => choice?.ticked.has(key)).length;
  return (
    <Table.ScrollContainer type="native" minWidth={640} tabIndex={0} aria-label={label} role="region">
      <Table verticalSpacing="sm" highlightOnHover className={classes.table} aria-label={label}>
        <Table.Thead>
          <Table.Tr>
            {choice && (
              <Table.Th scope="col" w={36}>
                <Checkbox size="xs" aria-label={t('chooseAll', { count: rows.length })} checked={ticked === rows.length} indeterminate={ticked > 0 && ticked < rows.length} onChange={(event) => choice.choose(event.currentTarget.checked ? rows.map(({ key }) => key) : [])} />
              </Table.Th>
            )}
            {heads.map((head) => (
              <Table.Th key={head} scope="col">
                {head}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ key, cells: [first, ...rest] }) => (
            <Table.Tr key={key}>
              {choice && (
                <Table.Td>
                  <Checkbox size="xs" aria-label={t('choose', { name: choice.nameOf(key) })} checked={choice.ticked.has(key)} onChange={(event) => choice.choose(event.currentTarget.checked ? [...choice.ticked, key] : [...choice.ticked].filter((one) => one !== key))} />
                </Table.Td>
              )}
              <Table.Th scope="row">{first}</Table.Th>
              {rest.map((cell, index) => (
                <Table.Td key={heads[index + 1] ?? index}>{cell ?? <Text c="dimmed">–</Text>}</Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
