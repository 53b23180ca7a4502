import { Alert, Button, Card, Group, Loader, Stack, Text, Textarea } from '@mantine/core';
import { IconPlayerStop, IconPlugConnectedX } from '@tabler/icons-react';
import { useThrottledValue } from '@mantine/hooks';
import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { useDeployment } from '~/api/events';
import { catalogApi } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { moment } from '~/i18n/times';
import { Confirm } from '~/ui/confirm';
import { Lasts, useNow } from '~/ui/when';
import { messages } from './messages';
import { actionOf, refreshEnvironment, type Deployment } from './queries';

/** A deployment that runs: what it waits for, its last words, and how to stop it. */
export function Progress({ environmentId, deployment }: { environmentId: string; deployment: Deployment }) {
  const t = useTexts(messages);
  const { may } = useSession();
  const queries = useQueryClient();
  const followed = useDeployment(environmentId, deployment.id, () => void refreshEnvironment(queries, environmentId));
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState('');
  const now = useNow();
  const began = moment(deployment.started);
  const last = followed.reports[followed.reports.length - 1];
  // Components show their newest report.
  const told = useThrottledValue(last?.id, 1_000);
  useEffect(() => {
    if (told) void queries.invalidateQueries({ queryKey: ['environment', environmentId, 'statuses'] });
  }, [told, queries, environmentId]);
  const action = actionOf(deployment);
  const title = action ? t('runningAction', { name: action }) : t('running');
  const waitingOn = followed.waitingOn ?? deployment.waiting_on;
  const cancel = () =>
    catalogApi
      .POST('/v1/environments/{environment_id}/deployments/{deployment_id}/cancel', {
        params: { path: { environment_id: environmentId, deployment_id: deployment.id } },
        body: reason.trim() ? { reason: reason.trim() } : {},
      })
      .then(() => refreshEnvironment(queries, environmentId));
  return (
    <Card component="section" aria-label={title} padding="md">
      {followed.lost && (
        <Alert mb="sm" color="yellow" variant="light" icon={<IconPlugConnectedX size={18} />}>
          {t('lost')}
        </Alert>
      )}
      <Group justify="space-between" align="flex-start">
        <Group align="flex-start" wrap="nowrap" flex="1 1 16rem">
          <Loader size="sm" mt={3} aria-hidden />
          <Stack gap={2} role="status" aria-live="polite">
            <Text fw={600}>
              {title}
              {began && (
                <Text span c="dimmed" fw={400}>
                  {' '}
                  · <Lasts seconds={(Math.max(now, Date.now()) - began.getTime()) / 1000} />
                </Text>
              )}
            </Text>
            {waitingOn && <Text size="sm">{t('waitingOn', { what: waitingOn })}</Text>}
            {last && (
              <Text size="sm" c="dimmed" lineClamp={2}>
                {last.text}
              </Text>
            )}
            <Text size="sm">
              <Link to="/environments/$environmentId/deployments/$deploymentId" params={{ environmentId, deploymentId: deployment.id }}>
                {t('showLog')}
              </Link>
            </Text>
          </Stack>
        </Group>
        {may('deploy_session') && (
          <Button variant="default" size="xs" leftSection={<IconPlayerStop size={14} />} onClick={() => setAsking(true)}>
            {t(action ? 'cancelAction' : 'cancelDeployment')}
          </Button>
        )}
      </Group>
      <Confirm opened={asking} onClose={() => setAsking(false)} title={t(action ? 'cancelActionTitle' : 'cancelTitle')} action={t(action ? 'cancelAction' : 'cancelDeployment')} run={cancel}>
        <Stack>
          <span>{t(action ? 'cancelActionText' : 'cancelText')}</span>
          <Textarea data-autofocus label={t('reason')} maxLength={500} value={reason} onChange={(event) => setReason(event.currentTarget.value)} />
        </Stack>
      </Confirm>
    </Card>
  );
}
