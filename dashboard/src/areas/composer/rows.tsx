import { ActionIcon, Button, Checkbox, Group, Input, Radio, Table, TextInput, VisuallyHidden } from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useId, type ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { useRowKeyboard } from '~/ui/keyboard';
import { messages } from './messages';
import { blank, withCell, without, type Column, type Row } from './table';

interface RowsProps {
  label: string;
  description: ReactNode;
  error: ReactNode;
  required: boolean;
  enabled: boolean;
  columns: Column[];
  least: number | undefined;
  most: number | undefined;
  value: unknown;
  onChange: (rows: Row[]) => void;
}

/** The rows of a table: texts, marks, and one row that is chosen. */
export function Rows({ label, description, error, required, enabled, columns, least, most, value, onChange }: RowsProps) {
  const t = useTexts(messages);
  const group = useId();
  const { list, added, removed } = useRowKeyboard();
  const rows = Array.isArray(value) ? (value as Row[]) : [];
  return (
    <Input.Wrapper ref={list} label={label} description={description} error={error} required={required} labelElement="div" role="group" aria-label={label}>
      <Table.ScrollContainer minWidth={280}>
        <Table verticalSpacing={4}>
          <Table.Thead>
            <Table.Tr>
              {columns.map((one) => (
                <Table.Th key={one.name}>{one.title}</Table.Th>
              ))}
              <Table.Th>
                <VisuallyHidden>{t('removeRow')}</VisuallyHidden>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row, index) => (
              <Table.Tr key={index} data-row>
                {columns.map((one) => (
                  <Table.Td key={one.name}>
                    <Cell column={one} name={`${one.title} ${index + 1}`} group={`${group}-${one.name}`} value={row[one.name]} enabled={enabled} onChange={(given) => onChange(withCell(rows, index, one, given))} />
                  </Table.Td>
                ))}
                <Table.Td ta="end">
                  <ActionIcon variant="subtle" color="gray" aria-label={t('removeRowOf', { number: index + 1 })} disabled={!enabled || rows.length <= (least ?? 0)} onClick={() => {
                      onChange(without(rows, index, columns));
                      removed();
                    }}>
                    <IconTrash size={16} />
                  </ActionIcon>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Group mt={6}>
        <Button
          data-add
          variant="default"
          size="xs"
          leftSection={<IconPlus size={14} />}
          disabled={!enabled || (most !== undefined && rows.length >= most)}
          onClick={() => {
            onChange([...rows, blank(columns, rows.length === 0)]);
            added();
          }}
        >
          {t('addRow')}
        </Button>
      </Group>
    </Input.Wrapper>
  );
}

interface CellProps {
  column: Column;
  name: string;
  group: string;
  value: unknown;
  enabled: boolean;
  onChange: (value: unknown) => void;
}

function Cell({ column, name, group, value, enabled, onChange }: CellProps) {
  if (column.type === 'checkbox') return <Checkbox aria-label={name} disabled={!enabled} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  if (column.type === 'radio') return <Radio aria-label={name} name={group} disabled={!enabled} checked={value === true} onChange={() => onChange(true)} />;
  return <TextInput aria-label={name} disabled={!enabled} value={typeof value === 'string' ? value : ''} onChange={(event) => onChange(event.currentTarget.value)} />;
}
