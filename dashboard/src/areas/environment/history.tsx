import { Badge, Table, Text } from '@mantine/core';
import { IconHistory } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useTexts } from '~/i18n';
import { duration, moment } from '~/i18n/times';
import { Empty } from '~/ui/page';
import { When } from '~/ui/when';
import { messages, type EnvironmentText } from './messages';
import { deploymentsQuery, type Deployment } from './queries';

const COLORS: Record<string, string> = {
  running: 'blue',
  running_w_errors: 'red',
  running_w_warnings: 'yellow',
  success: 'glass',
  completed_w_errors: 'red',
  completed_w_warnings: 'yellow',
};

export function DeploymentState({ state }: { state: string }) {
  const t = useTexts(messages);
  return (
    <Badge color={COLORS[state] ?? 'gray'} variant="light" radius="sm" tt="none" fw={600}>
      {`state_${state}` in messages.en ? t(`state_${state}` as EnvironmentText) : t('state_unknown')}
    </Badge>
  );
}

export function History() {
  const t = useTexts(messages);
  const { environmentId } = useParams({ from: '/shell/environments/$environmentId/history' });
  const { data: deployments } = useQuery(deploymentsQuery(environmentId));
  if (!deployments) return null;
  if (deployments.length === 0) {
    return (
      <Empty icon={IconHistory} title={t('noHistory')}>
        {t('noHistoryText')}
      </Empty>
    );
  }
  return (
    <Table.ScrollContainer minWidth={560}>
      <Table verticalSpacing="sm" highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t('started')}</Table.Th>
            <Table.Th>{t('what')}</Table.Th>
            <Table.Th>{t('status')}</Table.Th>
            <Table.Th>{t('took')}</Table.Th>
            <Table.Th>{t('by')}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {deployments.map((one) => (
            <Row key={one.id} deployment={one} environmentId={environmentId} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Row({ deployment, environmentId }: { deployment: Deployment; environmentId: string }) {
  const t = useTexts(messages);
  const began = moment(deployment.started);
  const ended = moment(deployment.finished);
  const method = (deployment.action as { method?: unknown } | null)?.method;
  return (
    <Table.Tr>
      <Table.Td>
        <Link to="/environments/$environmentId/deployments/$deploymentId" params={{ environmentId, deploymentId: deployment.id }}>
          <When at={deployment.started} />
        </Link>
      </Table.Td>
      <Table.Td>{typeof method === 'string' && method !== 'deploy' ? method : t('deployment')}</Table.Td>
      <Table.Td>
        <DeploymentState state={deployment.state} />
      </Table.Td>
      <Table.Td>
        {began && ended ? (
          duration((ended.getTime() - began.getTime()) / 1000)
        ) : (
          <Text span size="sm" c="dimmed">
            {deployment.waiting_on ? t('waitingOn', { what: deployment.waiting_on }) : '…'}
          </Text>
        )}
      </Table.Td>
      <Table.Td>{deployment.user_name}</Table.Td>
    </Table.Tr>
  );
}
