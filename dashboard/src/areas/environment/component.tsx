import { Anchor, Card, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useMemo } from 'react';
import { catalogApi, data } from '~/api/client';
import { useTexts } from '~/i18n';
import { masked } from '~/secrecy';
import { PageError } from '~/ui/page';
import { Log } from './log';
import { messages } from './messages';
import { deploymentsQuery, nameOf, packageNameOf, type Component, type Report } from './queries';
import { useShownEnvironment } from './shown';
import { Status } from './status';

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
              <Table.Tr>
                <Table.Th scope="row" w={200}>
                  {t('status')}
                </Table.Th>
                <Table.Td>
                  <Status environment={{ ...environment, id: undefined, status: component['?'].status ?? environment.status }} />
                </Table.Td>
              </Table.Tr>
              <Row name={t('type')} value={[packageNameOf(component), component['?'].type].filter(Boolean).join(' · ')} />
              <Row name="ID" value={component['?'].id} />
              {rows.map(([name, value]) => (
                <Row key={name} name={name} value={value} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
        {hasMachine(component) && (
          <Text size="sm" mt="sm">
            <Link to="/machines">{t('machines')}</Link> · <Link to="/environments/$environmentId/topology" params={{ environmentId: environment.id }}>{t('topology')}</Link>
          </Text>
        )}
      </Card>
      <div>
        <Title order={2}>{t('componentLog')}</Title>
        <Text size="sm" c="dimmed">
          {t('componentLogText')}
        </Text>
      </div>
      <ComponentLog environmentId={environment.id} component={component} />
    </Stack>
  );
}

/** Whether a machine is among the objects that it is made of. */
const hasMachine = (component: Component) => /"type":"[^"]*(?:Instance|Server)\b/.test(JSON.stringify(component));

/** Deployments whose reports are asked for at a time. */
const AT_ONCE = 6;

/** The reports of one component, over all deployments. */
function ComponentLog({ environmentId, component }: { environmentId: string; component: Component }) {
  const id = component['?'].id;
  const queries = useQueryClient();
  const { data: deployments } = useQuery(deploymentsQuery(environmentId));
  const last = deployments?.[0];
  const asked = useQuery({
    queryKey: ['environment', environmentId, 'reports', id, last?.id, last?.updated],
    enabled: deployments !== undefined,
    queryFn: async () => {
      const oldest = [...(await queries.fetchQuery(deploymentsQuery(environmentId)))].reverse();
      const found: Report[] = [];
      for (let from = 0; from < oldest.length; from += AT_ONCE) {
        const pages = await Promise.all(
          oldest.slice(from, from + AT_ONCE).map((one) => data(catalogApi.GET('/v1/environments/{environment_id}/deployments/{deployment_id}', { params: { path: { environment_id: environmentId, deployment_id: one.id }, query: { service_id: id } } }))),
        );
        found.push(...pages.flatMap((page) => page.reports));
      }
      return found;
    },
  });
  const followed = useMemo(() => ({ reports: asked.data ?? [], state: null, waitingOn: null, ended: asked.data !== undefined, lost: false }), [asked.data]);
  const names = useMemo(() => new Map([[id, nameOf(component)]]), [id, component]);
  if (asked.isLoadingError) return <PageError error={asked.error} reset={() => void asked.refetch()} />;
  return <Log followed={followed} names={names} days />;
}

function Row({ name, value }: { name: string; value: unknown }) {
  return (
    <Table.Tr>
      <Table.Th scope="row" w={200} style={{ verticalAlign: 'top' }}>
        {name}
      </Table.Th>
      <Table.Td style={{ overflowWrap: 'anywhere' }}>
        <Value value={masked(value, name)} />
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
