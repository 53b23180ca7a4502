import { Accordion, Badge, Code, Group, Stack, Text, TextInput, Title } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { call } from '~/api/client';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import classes from './trace.module.css';

interface Event {
  kind: string;
  /** file:line */
  at: string;
  subject: string;
  details: Record<string, unknown>;
}

interface Round {
  round: number;
  events: Event[];
}

const COLORS: Record<string, string> = { rule: 'glass', set: 'blue', command: 'orange', warning: 'yellow' };

const saidOf = ({ details }: Event) =>
  Object.entries(details)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' · ');

/** What rules of XML workflows did in a deployment. Deployments of applications have no rules, and nothing is shown. */
export function RuleTrace({ environmentId, deploymentId, running }: { environmentId: string; deploymentId: string; running: boolean }) {
  const t = useTexts(messages);
  const [wanted, setWanted] = useState('');
  const asked = useQuery({
    queryKey: ['environment', environmentId, 'trace', deploymentId],
    queryFn: async () => (await call<{ rounds: Round[] }>('GET', `/v1/environments/${environmentId}/deployments/${deploymentId}/trace`)).rounds,
    refetchInterval: running ? 3_000 : false,
  });
  const rounds = useMemo(() => {
    const search = wanted.trim().toLowerCase();
    const fits = (one: Event) => `${one.kind} ${one.at} ${one.subject} ${saidOf(one)}`.toLowerCase().includes(search);
    return (asked.data ?? []).map(({ round, events }) => ({ round, events: search ? events.filter(fits) : events })).filter((one) => one.events.length > 0);
  }, [asked.data, wanted]);
  if (!asked.data?.length) return null;
  return (
    <Stack component="section" gap="sm" aria-label={t('trace')}>
      <div>
        <Title order={2}>{t('trace')}</Title>
        <Text size="sm" c="dimmed">
          {t('traceLead')}
        </Text>
      </div>
      <TextInput size="xs" maw={340} leftSection={<IconSearch size={14} />} aria-label={t('traceFilter')} placeholder={t('traceFilter')} value={wanted} onChange={(event) => setWanted(event.currentTarget.value)} />
      <Accordion multiple variant="contained" order={3}>
        {rounds.map(({ round, events }) => (
          <Accordion.Item key={round} value={String(round)}>
            <Accordion.Control>
              <Group gap="sm">
                <Text fw={600} size="sm">
                  {t('round', { round })}
                </Text>
                <Text size="sm" c="dimmed">
                  {t('roundRules', { count: events.filter((one) => one.kind === 'rule').length })} · {t('roundChanges', { count: events.filter((one) => one.kind === 'set').length })}
                </Text>
              </Group>
            </Accordion.Control>
            <Accordion.Panel>
              <ol className={classes.events}>
                {events.map((one, index) => (
                  <li key={index} className={classes.event} data-kind={one.kind}>
                    <Badge size="sm" radius="sm" variant="light" tt="none" color={COLORS[one.kind] ?? 'gray'}>
                      {one.kind}
                    </Badge>
                    <div className={classes.text}>
                      <Text size="sm" component="span" fw={one.kind === 'rule' ? 600 : 400}>
                        {one.subject}
                      </Text>{' '}
                      {one.at && <Code>{one.at}</Code>}
                      <Text size="xs" c="dimmed">
                        {saidOf(one)}
                      </Text>
                    </div>
                  </li>
                ))}
              </ol>
            </Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    </Stack>
  );
}
