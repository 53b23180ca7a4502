import { Accordion, Code, Loader, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { catalogApi, data } from '~/api/client';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { messages } from './messages';
import classes from './package.module.css';
import type { Package } from './queries';

interface Schema {
  type?: string | string[];
  muranoType?: string;
  enum?: unknown[];
  items?: Schema;
  default?: unknown;
  title?: string;
  description?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: boolean;
  exclusiveMaximum?: boolean;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  properties?: Record<string, Schema>;
}

/** The classes of a package, each with what it takes: an engine tells its contracts when it is opened. */
export function Reference({ one }: { one: Package }) {
  const [opened, setOpened] = useState<string | null>(null);
  return (
    <Accordion value={opened} onChange={setOpened} variant="contained" order={3}>
      {one.class_definitions.map((name) => (
        <Accordion.Item key={name} value={name}>
          <Accordion.Control>
            <Code className={classes.wrap}>{name}</Code>
          </Accordion.Control>
          <Accordion.Panel>{opened === name && <Class name={name} one={one} />}</Accordion.Panel>
        </Accordion.Item>
      ))}
    </Accordion>
  );
}

function Class({ name, one }: { name: string; one: Package }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const asked = useQuery({
    queryKey: ['schema', one.id, name],
    queryFn: async () =>
      (await data(catalogApi.GET('/v1/schemas/{class_name}', { params: { path: { class_name: name }, query: { classVersion: one.version, packageName: one.fully_qualified_name } } }))) as unknown as Record<string, Schema>,
    staleTime: Infinity,
    retry: false,
  });
  if (asked.isLoadingError) {
    return (
      <Text size="sm" c="red">
        {explained(asked.error).text}
      </Text>
    );
  }
  if (!asked.data) return <Loader size="sm" aria-label={t('classes')} />;
  const schema = asked.data[''] ?? {};
  const inputs = Object.entries(schema.properties ?? {});
  return (
    <>
      {schema.description && (
        <Text size="sm" mb="xs">
          {schema.description}
        </Text>
      )}
      {inputs.length === 0 ? (
        <Text size="sm" c="dimmed">
          {t('noInputs')}
        </Text>
      ) : (
        <Table.ScrollContainer type="native" minWidth={360} tabIndex={0} role="region" aria-label={t('inputsOf', { name })}>
          <Table verticalSpacing={6} aria-label={t('inputsOf', { name })}>
            <Table.Thead>
              <Table.Tr>
                {[t('input'), t('takes'), t('default'), t('meaning')].map((head) => (
                  <Table.Th key={head} scope="col">
                    {head}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {inputs.map(([input, of]) => (
                <Table.Tr key={input}>
                  <Table.Th scope="row">{input}</Table.Th>
                  <Table.Td className={classes.wrap}>{contractOf(of)}</Table.Td>
                  <Table.Td className={classes.wrap}>{of.default === undefined ? '–' : JSON.stringify(of.default)}</Table.Td>
                  <Table.Td>{[of.title, of.description].filter(Boolean).join(': ')}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </>
  );
}

/** A contract as a short text: `integer, 1 to 65535`. */
export function contractOf(schema: Schema): string {
  if (schema.muranoType) return schema.muranoType;
  const kind = [schema.type ?? 'any'].flat().filter((one) => one !== 'null').join(' | ');
  const parts = [kind === 'array' && schema.items ? `list of ${contractOf(schema.items)}` : kind];
  if (schema.enum) parts.push(schema.enum.map((one) => JSON.stringify(one)).join(' | '));
  if (schema.minimum !== undefined) parts.push(`${schema.exclusiveMinimum ? '>' : '≥'} ${schema.minimum}`);
  if (schema.maximum !== undefined) parts.push(`${schema.exclusiveMaximum ? '<' : '≤'} ${schema.maximum}`);
  if (schema.minLength !== undefined) parts.push(`≥ ${schema.minLength} characters`);
  if (schema.maxLength !== undefined) parts.push(`≤ ${schema.maxLength} characters`);
  if (schema.pattern) parts.push(`/${schema.pattern}/`);
  return parts.join(', ');
}
