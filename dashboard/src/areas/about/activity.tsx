import { IconHistory } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { catalogApi, data } from '~/api/client';
import { DeploymentState } from '~/areas/environment/history';
import { componentsOf, environmentsQuery, nameOf, packageNameOf } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Empty, Page, PageError } from '~/ui/page';
import { Rows } from '~/ui/rows';
import { When } from '~/ui/when';
import { messages } from './messages';

/** The deployments of every environment of the project, newest first. */
export function Activity() {
  const t = useTexts(messages);
  const { data: environments = [] } = useQuery(environmentsQuery);
  const shown = useQuery({
    queryKey: ['deployments'],
    queryFn: async () => (await data(catalogApi.GET('/v1/deployments'))).deployments,
    refetchInterval: 10_000,
  });
  const names = new Map(environments.map((one) => [one.id, one.name]));
  if (shown.isLoadingError) return <PageError error={shown.error} reset={() => void shown.refetch()} />;
  return (
    <Page title={t('history')} lead={t('historyLead')}>
      {shown.data?.length === 0 ? (
        <Empty icon={IconHistory} title={t('noHistory')}>
          {t('noHistoryText')}
        </Empty>
      ) : (
        <Rows
          label={t('history')}
          heads={[t('environment'), t('started'), t('finished'), t('components'), t('lastReport'), t('status'), t('user')]}
          rows={[...(shown.data ?? [])]
            .sort((a, b) => b.started.localeCompare(a.started))
            .map((one) => ({
              key: one.id,
              cells: [
                <Link key="name" to="/environments/$environmentId/deployments/$deploymentId" params={{ environmentId: one.environment_id, deploymentId: one.id }}>
                  {names.get(one.environment_id) ?? one.environment_name ?? one.environment_id}
                </Link>,
                <When key="started" at={one.started} />,
                one.finished ? <When key="finished" at={one.finished} /> : null,
                <Text key="components" size="sm" lineClamp={2} maw={320}>
                  {componentsOf(one).map((component) => `${nameOf(component)} (${packageNameOf(component) || (component['?'].type.split('/')[0]?.split('.').pop() ?? '')})`).join(', ') || '–'}
                </Text>,
                one.last_report ? (
                  <Text key="report" size="sm" lineClamp={2} maw={320}>
                    <When at={one.last_report.created} /> — {one.last_report.text}
                  </Text>
                ) : null,
                <DeploymentState key="state" state={one.state} outcome={one.outcome} />,
                one.user_name,
              ],
            }))}
        />
      )}
    </Page>
  );
}
