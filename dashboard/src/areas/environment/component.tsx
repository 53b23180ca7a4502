import { Anchor, Card, Stack, Table, Text, Title } from '@mantine/core';
import { useParams } from '@tanstack/react-router';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import { nameOf } from './queries';
import { useShownEnvironment } from './shown';

/** One component: what it is, and the values of its properties. */
export function ComponentPage() {
  const t = useTexts(messages);
  const { componentId } = useParams({ from: '/shell/environments/$environmentId/components/$componentId' });
  const { environment, components } = useShownEnvironment();
  if (!environment) return null;
  const component = components.find((one) => one['?'].id === componentId);
  if (!component) return <Text>{t('noComponent')}</Text>;
  const rows = Object.entries(component).filter(([name]) => name !== '?');
  return (
    <Stack>
      <Title order={2}>{nameOf(component)}</Title>
      <Card padding="md">
        <Table.ScrollContainer type="native" minWidth={400} tabIndex={0} role="region" aria-label={nameOf(component)}>
          <Table verticalSpacing="xs" layout="auto">
            <Table.Tbody>
              <Row name={t('type')} value={component['?'].type} />
              <Row name="ID" value={component['?'].id} />
              {rows.map(([name, value]) => (
                <Row key={name} name={name} value={value} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Card>
    </Stack>
  );
}

/** Secrets are masked by the service already; other names that say so are not shown either. */
const HIDDEN = /password|secret|token|private.?key/i;

function Row({ name, value }: { name: string; value: unknown }) {
  return (
    <Table.Tr>
      <Table.Th scope="row" w={200} style={{ verticalAlign: 'top' }}>
        {name}
      </Table.Th>
      <Table.Td style={{ overflowWrap: 'anywhere' }}>
        <Value value={HIDDEN.test(name) && value ? '••••••' : value} />
      </Table.Td>
    </Table.Tr>
  );
}

function Value({ value }: { value: unknown }) {
  if (value === null || value === undefined || value === '') return <Text span c="dimmed">–</Text>;
  if (typeof value === 'string' && /^https?:\/\/[^\s]+$/.test(value)) {
    return (
      <Anchor href={value} target="_blank" rel="noopener noreferrer nofollow">
        {value}
      </Anchor>
    );
  }
  if (typeof value === 'object') {
    const header = (value as { '?'?: { type?: string } })['?'];
    return <Text span ff="monospace" size="xs" style={{ whiteSpace: 'pre-wrap' }}>{header ? (header.type ?? '') : JSON.stringify(value, null, 1)}</Text>;
  }
  return <>{String(value)}</>;
}
