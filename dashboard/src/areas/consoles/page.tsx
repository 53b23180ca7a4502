import { Badge, Button, Group, SegmentedControl, Stack, Text } from '@mantine/core';
import { IconKeyboard, IconPlugConnected } from '@tabler/icons-react';
import { useSuspenseQuery } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { lazy, Suspense, useCallback, useMemo, useState } from 'react';
import { useTexts } from '~/i18n';
import { Page } from '~/ui/page';
import { instancesOf, isVirtual, serversQuery } from '../machines/queries';
import { KINDS, type Kind } from './index';
import { messages } from './messages';
import type { Condition } from './stream';

// A terminal is no screen: each is loaded when it is opened.
const Terminal = lazy(async () => ({ default: (await import('./terminal')).Terminal }));
const Screen = lazy(async () => ({ default: (await import('./screen')).Screen }));

/** What a machine shows, and its keyboard. */
export function ConsolePage() {
  const t = useTexts(messages);
  const { serverId, vmId } = useParams({ from: '/shell/machines/$serverId/$vmId' });
  const { kind = 'terminal' } = useSearch({ from: '/shell/machines/$serverId/$vmId' });
  const navigate = useNavigate({ from: '/machines/$serverId/$vmId' });
  const { data: servers } = useSuspenseQuery(serversQuery);
  const vm = instancesOf(servers).find((one) => one.uuid === vmId);
  const name = vm?.alias ?? vmId;
  const [turn, setTurn] = useState(0);
  const [reset, setReset] = useState<() => void>();
  // A function given to a setter is called.
  const keep = useCallback((next: (() => void) | undefined) => setReset(() => next), []);
  const [conditions, setConditions] = useState<Record<string, Condition>>({});
  const connection = `${kind} ${vmId} ${turn}`;
  const changed = useCallback((condition: Condition) => setConditions((known) => ({ ...known, [connection]: condition })), [connection]);
  const machine = useMemo(() => ({ serverId, vmId }), [serverId, vmId]);
  const condition = conditions[connection] ?? {};
  const kinds = KINDS.filter((one) => one !== 'screen' || isVirtual(vm));
  return (
    <Page title={name} path={[[t('machines'), '/machines']]} aside={<State condition={condition} />} lead={t(`${kind}Text`)} wide>
      <Stack>
        <Group justify="space-between">
          <SegmentedControl
            aria-label={t('kinds')}
            value={kind}
            data={kinds.map((one) => ({ value: one, label: t(one) }))}
            onChange={(chosen) => void navigate({ search: { kind: chosen as Kind }, replace: true })}
          />
          <Group>
            {reset && (
              <Button variant="default" leftSection={<IconKeyboard size={16} />} onClick={reset}>
                {t('reset')}
              </Button>
            )}
            {(condition.lost || (condition.told && condition.told.type !== 'open')) && (
              <Button leftSection={<IconPlugConnected size={16} />} onClick={() => setTurn(turn + 1)}>
                {t('again')}
              </Button>
            )}
          </Group>
        </Group>
        {condition.told?.type === 'error' && (
          <Text role="alert" c="red">
            {condition.told.message}
          </Text>
        )}
        <Suspense fallback={null}>
          {kind === 'screen' ? (
            <Screen key={connection} machine={machine} changed={changed} onReset={keep} />
          ) : (
            <Terminal key={connection} kind={kind} machine={machine} label={t('terminalOf', { name })} changed={changed} />
          )}
        </Suspense>
        {kind !== 'screen' && (
          <Text size="sm" c="dimmed">
            {t('leave')}
          </Text>
        )}
      </Stack>
    </Page>
  );
}

function State({ condition: { told, lost } }: { condition: Condition }) {
  const t = useTexts(messages);
  const [color, text] = lost
    ? ['red', t('lost')]
    : !told
      ? ['gray', t('opening')]
      : told.type === 'open'
        ? ['glass', t(told.interactive ? 'open' : 'printsOnly')]
        : told.type === 'end'
          ? ['gray', t('ended', { code: told.code })]
          : ['red', t('lost')];
  return (
    <Badge color={color} variant="light" radius="sm" tt="none" fw={600} role="status">
      {text}
    </Badge>
  );
}
