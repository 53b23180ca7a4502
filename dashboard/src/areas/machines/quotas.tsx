import { Group, Paper, Progress, SimpleGrid, Text } from '@mantine/core';
import { useSuspenseQuery } from '@tanstack/react-query';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import { quotasQuery } from './queries';

const NAMES = ['environments', 'instances', 'cores', 'memory', 'addresses', 'volumes', 'disk'] as const;

/** What the project has of each resource, and what it may have. */
export function Quotas() {
  const t = useTexts(messages);
  const { data: quotas } = useSuspenseQuery(quotasQuery);
  const known = NAMES.flatMap((name) => (quotas[name] ? [{ name, ...quotas[name] }] : []));
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} component="ul" p={0} m={0} aria-label={t('quotas')} style={{ listStyle: 'none' }}>
      {known.map(({ name, used, limit, unit }) => {
        const bounded = limit >= 0;
        const part = bounded ? (limit === 0 ? 100 : Math.min(100, (100 * used) / limit)) : 0;
        const amount = bounded ? t('usedOf', { used, limit, unit }) : t('usedOfAny', { used, unit });
        return (
          <Paper key={name} component="li" withBorder p="md">
            <Group justify="space-between" mb={6}>
              <Text fw={600}>{t(`quota_${name}`)}</Text>
              <Text size="sm">{amount}</Text>
            </Group>
            {bounded && <Progress value={part} color={part >= 100 ? 'red' : part >= 80 ? 'orange' : undefined} aria-label={t(`quota_${name}`)} />}
            {bounded && part >= 80 && (
              <Text size="sm" mt={6} role="note">
                {t(part >= 100 ? 'quotaFull' : 'quotaNearlyFull')}
              </Text>
            )}
          </Paper>
        );
      })}
    </SimpleGrid>
  );
}
