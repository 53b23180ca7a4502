import { Alert, Button, Group, List, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Dialog } from '~/ui/dialog';
import { useFailure } from '~/ui/failure';
import { deploy, letGo } from './many';
import { messages } from './messages';
import { refreshEnvironment, type Deployment, type Environment } from './queries';

/** A machine, a load balancer, a volume or an address that a request would have lost, and did not name. */
export interface Loss {
  key: string;
  kind: string;
  name: string;
  how: string;
  text: string;
  changes: { name: string; old: string; new: string }[];
}

/** What the result of a deployment or an action says would be lost; none when it was not refused for that. */
export function lossesOf(result: unknown): Loss[] {
  const { losses } = (result ?? {}) as { losses?: unknown };
  return Array.isArray(losses) ? losses.filter((one): one is Loss => typeof one === 'object' && one !== null && typeof (one as Loss).key === 'string') : [];
}

export const lossesOfDeployment = (deployment: Deployment | undefined) => lossesOf((deployment?.result as { result?: unknown } | null | undefined)?.result);

/** Says of a loss what happens to it and why, in the reader's language. */
function Said({ loss }: { loss: Loss }) {
  const t = useTexts(messages);
  const kind = loss.kind in KINDS ? t(KINDS[loss.kind as keyof typeof KINDS]) : loss.kind;
  return (
    <List.Item>
      <Text size="sm" fw={600} span>
        {t(loss.how === 'removed' ? 'lossRemoved' : 'lossReplaced', { kind, name: loss.name })}
      </Text>
      {(loss.kind === 'machine' || loss.kind === 'volume') && (
        <Text size="sm" span>
          {' '}
          {t('lossData')}
        </Text>
      )}
      {loss.changes.map((one) => (
        <Text key={one.name} size="sm" style={{ overflowWrap: 'anywhere' }}>
          {one.name}: {one.old} → {one.new}
        </Text>
      ))}
    </List.Item>
  );
}

const KINDS = { machine: 'loss_machine', 'load balancer': 'loss_balancer', volume: 'loss_volume', address: 'loss_address' } as const;

const Losses = ({ losses }: { losses: Loss[] }) => (
  <List spacing="xs">
    {losses.map((one) => (
      <Said key={one.key} loss={one} />
    ))}
  </List>
);

/** Names what would be lost, and goes on only when it is told to. */
export function LossDialog({ losses, of, onClose, run }: { losses: Loss[]; /** The environment, where the page does not say it. */ of?: string; onClose: () => void; run: (mayLose: string[]) => Promise<unknown> }) {
  const t = useTexts(messages);
  const failed = useFailure();
  const [busy, setBusy] = useState(false);
  const go = async () => {
    setBusy(true);
    try {
      await run(losses.map((one) => one.key));
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog opened onClose={onClose} title={of === undefined ? t('lossTitle') : t('lossTitleOf', { name: of })} beside={false}>
      <Stack>
        <Text size="sm">{t('lossLead')}</Text>
        <Losses losses={losses} />
        <Group justify="flex-end">
          <Button variant="default" data-autofocus onClick={onClose}>
            {t('lossLeave')}
          </Button>
          <Button color="red" loading={busy} onClick={() => void go()}>
            {t('lossGo')}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

/** The last deployment was refused because of what it would lose: says so, and asks when that happens here. */
export function Refused({ environment, deployment, shown, mayDeploy }: { environment: Environment; deployment: Deployment; shown: boolean; mayDeploy: boolean }) {
  const t = useTexts(messages);
  const { user } = useSession();
  const queries = useQueryClient();
  const losses = lossesOfDeployment(deployment);
  // One that was there when the page was opened is only shown.
  const known = useRef(deployment.id);
  const [asking, setAsking] = useState(false);
  // What the answers to the refusals before this one let go.
  const agreed = useRef<string[]>([]);
  const leave = () => {
    agreed.current = [];
    setAsking(false);
  };
  useEffect(() => {
    if (known.current === deployment.id) return;
    known.current = deployment.id;
    if (losses.length === 0) agreed.current = [];
    setAsking(mayDeploy && losses.length > 0 && deployment.user_id === user.id);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [deployment.id]);
  const run = async (mayLose: string[]) => {
    const named = letGo(agreed.current, mayLose);
    const begun = await deploy(queries, environment, named);
    agreed.current = begun ? named : [];
    setAsking(false);
    notifications.show({ message: t(begun ? 'deployStarted' : 'deployNothing') });
    await refreshEnvironment(queries, environment.id);
  };
  if (losses.length === 0 || !shown) return null;
  return (
    <Alert color="yellow" variant="light" icon={<IconAlertTriangle />} title={t('refusedTitle')}>
      <Stack gap="sm" align="flex-start">
        <Text size="sm">{t('refusedText')}</Text>
        <Losses losses={losses} />
        {mayDeploy && (
          <Button size="xs" variant="default" onClick={() => setAsking(true)}>
            {t('lossGo')}…
          </Button>
        )}
      </Stack>
      {asking && <LossDialog losses={losses} onClose={leave} run={run} />}
    </Alert>
  );
}
