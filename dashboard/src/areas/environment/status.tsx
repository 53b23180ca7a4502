import { Badge, Loader } from '@mantine/core';
import { useTexts } from '~/i18n';
import { messages, type EnvironmentText } from './messages';
import { isBusy } from './queries';

const COLORS: Record<string, string> = {
  new: 'gray',
  pending: 'yellow',
  deploying: 'blue',
  ready: 'glass',
  deleting: 'orange',
  'deploy failure': 'red',
  'delete failure': 'red',
};

/** What a person calls the status: one that was never deployed and has nothing to deploy is new. */
export function shownStatus(environment: { status: string; version: number }): string {
  return environment.status === 'ready' && environment.version === 0 ? 'new' : environment.status;
}

export function Status({ environment }: { environment: { status: string; version: number } }) {
  const t = useTexts(messages);
  const status = shownStatus(environment);
  const text = `status_${status}` in messages.en ? t(`status_${status}` as EnvironmentText) : status;
  return (
    <Badge
      color={COLORS[status] ?? 'gray'}
      variant="light"
      radius="sm"
      tt="none"
      fw={600}
      size="md"
      leftSection={isBusy(status) ? <Loader size={10} color="currentColor" aria-hidden /> : undefined}
    >
      {text}
    </Badge>
  );
}
