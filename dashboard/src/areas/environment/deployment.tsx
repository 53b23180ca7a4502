import { Group, Stack, Tabs, Text, Title } from '@mantine/core';
import { IconHistory } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useDeployment } from '~/api/events';
import { useTexts } from '~/i18n';
import { moment } from '~/i18n/times';
import { Fqn } from '~/ui/fqn';
import { Empty } from '~/ui/page';
import { Rows } from '~/ui/rows';
import { TabRow } from '~/ui/tabs';
import { Lasts, When } from '~/ui/when';
import { DeploymentState } from './history';
import { Log } from './log';
import { messages } from './messages';
import { RuleTrace } from './trace';
import { componentsOf, deploymentsQuery, nameOf, packageNameOf, refreshEnvironment } from './queries';

export function DeploymentPage() {
  const { environmentId, deploymentId } = useParams({ from: '/shell/environments/$environmentId/deployments/$deploymentId' });
  return <OneDeployment environmentId={environmentId} deploymentId={deploymentId} />;
}

/** The log of the newest deployment, as long as it is the newest. */
export function LatestLog() {
  const t = useTexts(messages);
  const { environmentId } = useParams({ from: '/shell/environments/$environmentId/log' });
  const { data: deployments } = useQuery(deploymentsQuery(environmentId));
  const newest = deployments?.[0];
  if (!deployments) return null;
  if (!newest) {
    return (
      <Empty icon={IconHistory} title={t('noHistory')}>
        {t('noHistoryText')}
      </Empty>
    );
  }
  return <OneDeployment key={newest.id} environmentId={environmentId} deploymentId={newest.id} />;
}

/** A deployment: its log, and the components as they were. */
function OneDeployment({ environmentId, deploymentId }: { environmentId: string; deploymentId: string }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const { data: deployments } = useQuery(deploymentsQuery(environmentId));
  const deployment = deployments?.find((one) => one.id === deploymentId);
  const followed = useDeployment(environmentId, deploymentId, () => void refreshEnvironment(queries, environmentId));
  const components = useMemo(() => componentsOf(deployment), [deployment]);
  const names = useMemo(() => new Map(components.map((one) => [one['?'].id, nameOf(one)])), [components]);
  const began = moment(deployment?.started);
  const ended = moment(deployment?.finished);
  return (
    <Tabs defaultValue="log" variant="pills" keepMounted={false}>
      <Stack>
        <Group gap="sm" justify="space-between">
          <Group gap="sm">
            <Title order={2}>{t('deployment')}</Title>
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
          <TabRow pills chosen="log" label={t('deployment')}>
            <Tabs.Tab value="log">{t('log')}</Tabs.Tab>
            <Tabs.Tab value="configuration">{t('configuration')}</Tabs.Tab>
          </TabRow>
        </Group>
        <Tabs.Panel value="log">
          <Stack>
            <Log followed={followed} names={names} />
            {deployment && <RuleTrace environmentId={environmentId} deploymentId={deploymentId} running={!deployment.finished} />}
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="configuration">
          {components.length === 0 ? (
            <Text c="dimmed">{t('noConfiguration')}</Text>
          ) : (
            <Rows
              label={t('configuration')}
              heads={[t('name'), t('type')]}
              rows={components.map((one) => ({
                key: one['?'].id,
                cells: [nameOf(one), packageNameOf(one) || (one['?'].type ? <Fqn key="type" name={one['?'].type.split('/')[0] ?? ''} /> : t('state_unknown'))],
              }))}
            />
          )}
        </Tabs.Panel>
      </Stack>
    </Tabs>
  );
}
