import { Group, Stack, Text, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useDeployment } from '~/api/events';
import { useTexts } from '~/i18n';
import { moment } from '~/i18n/times';
import { Lasts, When } from '~/ui/when';
import { DeploymentState } from './history';
import { Log } from './log';
import { messages } from './messages';
import { RuleTrace } from './trace';
import { deploymentsQuery, nameOf, refreshEnvironment, type Component } from './queries';

export function DeploymentPage() {
  const t = useTexts(messages);
  const { environmentId, deploymentId } = useParams({ from: '/shell/environments/$environmentId/deployments/$deploymentId' });
  const queries = useQueryClient();
  const { data: deployments } = useQuery(deploymentsQuery(environmentId));
  const deployment = deployments?.find((one) => one.id === deploymentId);
  const followed = useDeployment(environmentId, deploymentId, () => void refreshEnvironment(queries, environmentId));
  const names = useMemo(() => {
    const services = (deployment?.description as { services?: unknown } | undefined)?.services;
    return new Map(Array.isArray(services) ? (services as Component[]).filter((one) => one?.['?']?.id).map((one) => [one['?'].id, nameOf(one)]) : []);
  }, [deployment]);
  const began = moment(deployment?.started);
  const ended = moment(deployment?.finished);
  return (
    <Stack>
      <Group gap="sm">
        <Title order={2}>{t('log')}</Title>
        {deployment && <DeploymentState state={followed.state ?? deployment.state} outcome={deployment.outcome} />}
        {deployment && (
          <Text size="sm" c="dimmed">
            {deployment.user_name} · <When at={deployment.started} />
            {began && ended && (
              <>
                {' '}
                · <Lasts seconds={(ended.getTime() - began.getTime()) / 1000} />
              </>
            )}
          </Text>
        )}
      </Group>
      <Log followed={followed} names={names} />
      {deployment && <RuleTrace environmentId={environmentId} deploymentId={deploymentId} running={!deployment.finished} />}
    </Stack>
  );
}
