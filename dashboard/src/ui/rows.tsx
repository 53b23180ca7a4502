import { Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './rows.module.css';

interface RowsProps {
  /** What the table lists, for screen readers. */
  label: string;
  heads: string[];
  rows: { key: string; cells: ReactNode[] }[];
}

/** A table that a narrow screen can scroll. The first column names the row. */
export function Rows({ label, heads, rows }: RowsProps) {
  return (
    <Table.ScrollContainer type="native" minWidth={640} tabIndex={0} aria-label={label} role="region">
      <Table verticalSpacing="sm" highlightOnHover className={classes.table} aria-label={label}>
        <Table.Thead>
          <Table.Tr>
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
