import { Alert, Button, Card, Group, List, Stack, Tabs, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconArrowBackUp, IconPlayerPlay, IconPlus } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useNavigate, useParams, useRouterState } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { ApiError, catalogApi } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useFailure } from '~/ui/failure';
import { keepKeyboard } from '~/ui/keyboard';
import { useOnce } from '~/ui/once';
import { Page, PageError, PageMissing } from '~/ui/page';
import { TabRow } from '~/ui/tabs';
import { deploy } from './many';
import { Leaked } from './leaked';
import { lossesOfDeployment, Refused } from './losses';
import { EnvironmentDialogs, EnvironmentMenu, type Asked } from './menu';
import { messages } from './messages';
import { Progress } from './progress';
import { actionOf, changesOf, deploymentsQuery, hasServices, isBusy, refreshEnvironment, type Change, type Deployment, type Environment, type OpenedSession } from './queries';
import { useEnvironment } from './shown';
import { Status } from './status';
import { rememberTab, type Tab } from './tab';

/** What an environment's pages share: its name, status, changes, and what can be done with it. */
export function EnvironmentFrame() {
  const t = useTexts(messages);
  const { environmentId } = useParams({ from: '/shell/environments/$environmentId' });
  const { sessions, session, shown } = useEnvironment(environmentId);
  const deployments = useQuery(deploymentsQuery(environmentId));
  const path = useRouterState({ select: (state) => state.location.pathname });
  const navigate = useNavigate();
  const { may, user } = useSession();
  // It was there, and is not any more: this was its destruction, or somebody else's.
  const known = shown.data?.name;
  const gone = sessions.error instanceof ApiError && sessions.error.status === 404 && known !== undefined;
  const queries = useQueryClient();
  useEffect(() => {
    if (!gone) return;
    notifications.show({ id: `gone ${environmentId}`, message: t('gone', { name: known }) });
    queries.removeQueries({ queryKey: ['environment', environmentId] });
    void navigate({ to: '/environments', replace: true });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [gone]);
  const error = shown.error ?? sessions.error;
  if (error && !shown.data) return error instanceof ApiError && error.status === 404 ? <PageMissing /> : <PageError error={error} reset={() => void shown.refetch()} />;
  if (!shown.data) return null;
  const environment = shown.data;
  const base = `/environments/${environmentId}`;
  const section = path.slice(base.length + 1).split('/')[0] ?? '';
  const tab = section === 'components' ? '' : section === 'deployments' ? 'history' : section;
  const running = deployments.data?.find((one) => !one.finished);
  const shownTab = tab || 'components';
  const ended = deployments.data?.find((one) => one.finished);
  const refused = ended && !actionOf(ended) ? ended : undefined;
  return (
    <Page title={environment.name} aside={<Status environment={environment} />} lead={hasServices(environment) ? t('kind_workflow') : undefined} path={[[t('title'), '/environments']]} actions={<Actions environment={environment} session={session} />}>
      <Stack gap="lg">
        <Overtaken environment={environment} sessions={sessions.data ?? []} />
        {!running && environment.status.endsWith('failure') && lossesOfDeployment(ended).length === 0 && <Failed environmentId={environmentId} deployment={deployments.data?.[0]} />}
        {refused && <Refused environment={environment} deployment={refused} shown={!running && (changesOf(session).length > 0 || environment.status === 'deploy failure')} mayDeploy={may('deploy_session')} />}
        <Leaked environmentId={environmentId} />
        {running ? <Progress environmentId={environmentId} deployment={running} /> : <Pending environment={environment} session={session} />}
        <Tabs value={shownTab} onChange={(value) => {
            const chosen = value as Tab;
            rememberTab(user.id, chosen);
            void navigate({ to: chosen === 'components' ? base : `${base}/${chosen}` });
          }} keepMounted={false}>
          <TabRow chosen={shownTab}>
            <Tabs.Tab value="components">{t('components')}</Tabs.Tab>
            <Tabs.Tab value="topology">{t('topology')}</Tabs.Tab>
            {may('list_deployments') && <Tabs.Tab value="history">{t('history')}</Tabs.Tab>}
            {(tab === 'log' || (may('list_deployments') && (deployments.data?.length ?? 0) > 0)) && <Tabs.Tab value="log">{t('latestLog')}</Tabs.Tab>}
            <Tabs.Tab value="model">{t('model')}</Tabs.Tab>
          </TabRow>
          <Tabs.Panel value={shownTab} pt="lg">
            <Outlet />
          </Tabs.Panel>
        </Tabs>
      </Stack>
    </Page>
  );
}

function Actions({ environment, session }: { environment: Environment; session: OpenedSession | undefined }) {
  const t = useTexts(messages);
  const { may } = useSession();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const failed = useFailure();
  const [deploying, setDeploying] = useState(false);
  const [asked, setAsked] = useState<Asked>();
  const busy = isBusy(environment.status);
  const id = environment.id;
  const start = async () => {
    setDeploying(true);
    try {
      const begun = await deploy(queries, environment);
      notifications.show({ message: t(begun ? 'deployStarted' : 'deployNothing') });
      await refreshEnvironment(queries, id);
    } catch (error) {
      failed(error);
    } finally {
      setDeploying(false);
      keepKeyboard(); // while something is deployed, nobody can press it again
    }
  };
  const deployable = changesOf(session).length > 0 || environment.status === 'deploy failure';
  return (
    <>
      {!hasServices(environment) && may('update_services') && (
        <Button variant="default" leftSection={<IconPlus size={16} />} disabled={busy} onClick={() => void navigate({ to: '/catalog', search: { environment: id } })}>
          {t('add')}
        </Button>
      )}
      {may('deploy_session') && (
        <Button leftSection={<IconPlayerPlay size={16} />} disabled={busy || !deployable} loading={deploying} onClick={() => void start()}>
          {environment.version > 0 ? t('update') : t('deploy')}
        </Button>
      )}
      <EnvironmentMenu environment={environment} label={t('more')} ask={setAsked} />
      <EnvironmentDialogs environment={environment} asked={asked} onClose={() => setAsked(undefined)} onAbandoned={() => void navigate({ to: '/environments' })} />
    </>
  );
}

/** The changes that Deploy would carry out. */
function Pending({ environment, session }: { environment: Environment; session: OpenedSession | undefined }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const changes = changesOf(session);
  const discard = useOnce(async () => {
    if (!session) return;
    try {
      await catalogApi.DELETE('/v1/environments/{environment_id}/sessions/{session_id}', { params: { path: { environment_id: environment.id, session_id: session.id } } });
      await refreshEnvironment(queries, environment.id);
    } catch (error) {
      failed(error);
    }
  });
  if (!session || changes.length === 0) return null;
  return (
    <Card padding="md" component="section" aria-label={t('changes')}>
      <Group justify="space-between" align="flex-start">
        <div>
          <Text fw={600} mb={4}>
            {t('changes')}
          </Text>
          <List size="sm" spacing={2}>
            {changes.map((one) => (
              <List.Item key={`${one.change}${one.id}`}>{said(t, one)}</List.Item>
            ))}
          </List>
        </div>
        <Button variant="subtle" size="xs" leftSection={<IconArrowBackUp size={14} />} onClick={() => discard()}>
          {t('discard')}
        </Button>
      </Group>
    </Card>
  );
}

function said(t: ReturnType<typeof useTexts<keyof (typeof messages)['en']>>, one: Change): string {
  const properties = (one.properties ?? []).join(', ');
  if (one.change === 'added') return t('change_added', { name: one.application });
  if (one.change === 'removed') return t('change_removed', { name: one.application });
  return t('change_changed', { name: one.application, properties: properties || '…' });
}

/** Changes of one's own that somebody's deployment came before. */
function Overtaken({ environment, sessions }: { environment: Environment; sessions: OpenedSession[] }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const mine = sessions.filter((one) => one.own && one.overtaken && changesOf(one).length > 0);
  const others = sessions.filter((one) => !one.own && !one.overtaken && changesOf(one).length > 0);
  const act = useOnce(async (session: string, keep: boolean) => {
    const params = { path: { environment_id: environment.id, session_id: session } };
    try {
      if (keep) await catalogApi.POST('/v1/environments/{environment_id}/sessions/{session_id}/rebase', { params });
      else await catalogApi.DELETE('/v1/environments/{environment_id}/sessions/{session_id}', { params });
      await refreshEnvironment(queries, environment.id);
    } catch (error) {
      failed(error);
    }
  });
  return (
    <>
      {mine.map((one) => (
        <Alert key={one.id} color="yellow" variant="light" title={t('overtakenTitle')}>
          <Text size="sm">{t('overtaken', { summary: one.summary })}</Text>
          <Group mt="sm">
            <Button size="xs" onClick={() => act(one.id, true)}>
              {t('takeOver')}
            </Button>
            <Button size="xs" variant="default" onClick={() => act(one.id, false)}>
              {t('discard')}
            </Button>
          </Group>
        </Alert>
      ))}
      {others.length > 0 && (
        <Alert variant="light" color="blue" title={t('othersTitle')}>
          {t('others', { summary: others.map((one) => one.summary).join('; ') })}
        </Alert>
      )}
    </>
  );
}


/** Why the last deployment failed, and where to read more. */
function Failed({ environmentId, deployment }: { environmentId: string; deployment: Deployment | undefined }) {
  const t = useTexts(messages);
  if (!deployment) return null;
  const { result } = deployment.result as { result?: { message?: unknown } | null };
  const reason = typeof result?.message === 'string' ? result.message : '';
  const action = actionOf(deployment);
  return (
    <Alert color="red" variant="light" title={action ? t('failedAction', { name: action }) : t('failedTitle')}>
      <Text size="sm" lineClamp={6} style={{ whiteSpace: 'pre-line', overflowWrap: 'anywhere' }}>
        {reason}
      </Text>
      <Text size="sm" mt={4}>
        {t(action ? 'failedActionNext' : 'failedNext')}{' '}
        <Link to="/environments/$environmentId/deployments/$deploymentId" params={{ environmentId, deploymentId: deployment.id }}>
          {t('openLog')}
        </Link>
      </Text>
    </Alert>
  );
}
