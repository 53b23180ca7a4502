import { Badge, Text } from '@mantine/core';
import { IconHistory } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { moment } from '~/i18n/times';
import { Empty } from '~/ui/page';
import { Rows } from '~/ui/rows';
import { Lasts, When } from '~/ui/when';
import { messages, type EnvironmentText } from './messages';
import { actionOf, deploymentsQuery, type Deployment } from './queries';

const COLORS: Record<string, string> = {
  running: 'blue',
  running_w_errors: 'red',
  running_w_warnings: 'yellow',
  success: 'glass',
  completed_w_errors: 'red',
  completed_w_warnings: 'yellow',
  cancelled: 'yellow',
  interrupted: 'yellow',
  abandoned: 'yellow',
};

/** Who did not fail by itself was stopped by somebody, or by the end of its engine. */
const STOPPED = ['cancelled', 'interrupted', 'abandoned'];

export function DeploymentState({ state, outcome }: { state: string; outcome?: string | null | undefined }) {
  const t = useTexts(messages);
  const shown = outcome && STOPPED.includes(outcome) ? outcome : state;
  return (
    <Badge color={COLORS[shown] ?? 'gray'} variant="light" radius="sm" tt="none" fw={600}>
      {`state_${shown}` in messages.en ? t(`state_${shown}` as EnvironmentText) : t('state_unknown')}
    </Badge>
  );
}

export function History() {
  const t = useTexts(messages);
  const { environmentId } = useParams({ from: '/shell/environments/$environmentId/history' });
  const { data: deployments } = useQuery(deploymentsQuery(environmentId));
  if (!deployments) return null;
  const cellsOf = (one: Deployment): ReactNode[] => {
    return [
      <Link key="started" to="/environments/$environmentId/deployments/$deploymentId" params={{ environmentId, deploymentId: one.id }}>
        <When at={one.started} />
      </Link>,
      actionOf(one) ?? t('deployment'),
      <DeploymentState key="state" state={one.state} outcome={one.outcome} />,
      <Took key="took" deployment={one} />,
      one.user_name,
    ];
  };
  if (deployments.length === 0) {
    return (
      <Empty icon={IconHistory} title={t('noHistory')}>
        {t('noHistoryText')}
      </Empty>
    );
  }
  return (
    <Rows
      label={t('history')}
      heads={[t('started'), t('what'), t('status'), t('took'), t('by')]}
      rows={deployments.map((one) => ({ key: one.id, cells: cellsOf(one) }))}
    />
  );
}

function Took({ deployment }: { deployment: Deployment }) {
  const t = useTexts(messages);
  const began = moment(deployment.started);
  const ended = moment(deployment.finished);
  if (began && ended) return <Lasts seconds={(ended.getTime() - began.getTime()) / 1000} />;
  return (
    <Text span size="sm" c="dimmed">
      {deployment.waiting_on ? t('waitingOn', { what: deployment.waiting_on }) : '…'}
    </Text>
  );
}
