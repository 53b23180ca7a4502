import { Badge, Loader } from '@mantine/core';
import { useTexts } from '~/i18n';
import { useToldStatus } from './away';
import { messages, type EnvironmentText } from './messages';
import { isBusy, type Judged } from './queries';

const COLORS: Record<string, string> = {
  new: 'gray',
  pending: 'yellow',
  deploying: 'blue',
  ready: 'glass',
  deleting: 'orange',
  'deploy failure': 'red',
  'delete failure': 'red',
  'machines missing': 'red',
  'machines unknown': 'yellow',
};

export function Status({ environment }: { environment: Judged & { id?: string | undefined } }) {
  const t = useTexts(messages);
  const status = useToldStatus(environment);
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
