import { Paper, Progress, SimpleGrid, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useTexts } from '~/i18n';
import { changesOf, environmentQuery, sessionsQuery, type Component } from '~/areas/environment/queries';
import { quotasQuery } from '~/areas/machines/queries';
import { messages } from './messages';
import { machinesOf, NONE, plus, sizesOf, type Amounts } from './planned';
import type { FormField } from './wizard';

interface QuotaProps {
  fields: FormField[];
  values: Record<string, unknown>;
  environmentId: string | undefined;
  session: string | undefined;
}

const NAMES = ['instances', 'cores', 'memory'] as const;

/** Under fields for a flavor: what the project has, what its environment plans, and what this form adds, of what it may have. */
export function QuotaBars({ fields, values, environmentId = '', session }: QuotaProps) {
  const t = useTexts(messages);
  const { data: quotas } = useQuery({ ...quotasQuery, refetchInterval: false });
  const { data: shown } = useQuery({ ...environmentQuery(environmentId, session), enabled: environmentId !== '', refetchInterval: false });
  const { data: sessions } = useQuery({ ...sessionsQuery(environmentId), enabled: environmentId !== '', refetchInterval: false });
  const bounded = NAMES.flatMap((name) => (quotas?.[name] && quotas[name].limit >= 0 ? [{ name, ...quotas[name] }] : []));
  if (bounded.length === 0) return null;
  const sizes = sizesOf(fields);
  const added = new Set(changesOf(sessions?.find((one) => one.id === session)).flatMap((one) => (one.change === 'added' ? [one.id] : [])));
  const planned = machinesOf(((shown?.services ?? []) as unknown as Component[]).filter((one) => added.has(one['?'].id)), sizes);
  const now = fields.reduce<Amounts>((sum, field) => (typeof values[field.name] === 'string' && values[field.name] ? plus(sum, sizes.get(values[field.name] as string)) : sum), NONE);
  return (
    <SimpleGrid cols={{ base: 1, xs: bounded.length }} component="section" aria-label={t('quota')} spacing="xs">
      {bounded.map(({ name, used, limit, unit }) => {
        const sum = used + planned[name] + now[name];
        const part = (amount: number) => (limit === 0 ? (amount > 0 ? 100 : 0) : (100 * amount) / limit);
        return (
          <Paper key={name} withBorder p="xs">
            <Text size="xs" fw={600}>
              {t(`quota_${name}`)}
            </Text>
            <Progress.Root size="sm" my={4}>
              <Progress.Section value={part(used)} color="gray" aria-label={t('quotaUsed')} />
              <Progress.Section value={part(planned[name])} color="yellow" aria-label={t('quotaPlanned')} />
              <Progress.Section value={part(now[name])} color={sum > limit ? 'red' : 'glass'} aria-label={t('quotaNow')} />
            </Progress.Root>
            <Text size="xs" {...(sum > limit ? { c: 'var(--mantine-color-error)', role: 'note' } : {})}>
              {t(sum > limit ? 'quotaOver' : 'quotaSum', { used, planned: planned[name], now: now[name], limit, unit: unit ?? '' })}
            </Text>
          </Paper>
        );
      })}
    </SimpleGrid>
  );
}
