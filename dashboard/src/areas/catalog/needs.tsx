import { Card, List, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { catalogApi, data } from '~/api/client';
import { useLanguage, useTexts } from '~/i18n';
import { messages } from './messages';
import type { Package } from './queries';

const LIMITS = [
  ['vcpus', 'vcpus'],
  ['memory_mb', 'memory'],
  ['disk', 'disk'],
] as const;

/** What an application needs of machines, and its licence, as its form says. */
export function Needs({ one }: { one: Package }) {
  const t = useTexts(messages);
  const { language } = useLanguage();
  const { data: needs } = useQuery({
    queryKey: ['package', one.id, 'needs', language],
    queryFn: () => data(catalogApi.GET('/v1/catalog/packages/{package_id}/needs', { params: { path: { package_id: one.id }, query: { language } } })),
    staleTime: Infinity,
    enabled: one.type === 'Application',
  });
  if (!needs) return null;
  const lines = needs.sizes.flatMap(({ label, limits }) => {
    const given = limits as Record<string, unknown>;
    return LIMITS.flatMap(([key, text]) =>
      (['min', 'max'] as const).flatMap((bound) => {
        const value = given[`${bound}_${key}`];
        return typeof value === 'number' ? [`${label}: ${t(`${bound}_${text}`, { value })}`] : [];
      }),
    );
  });
  return (
    <>
      <Card>
        <Title order={2} mb="xs">
          {t('needs')}
        </Title>
        {lines.length === 0 ? (
          <Text size="sm" c="dimmed">
            {t('noNeeds')}
          </Text>
        ) : (
          <List size="sm">
            {lines.map((line) => (
              <List.Item key={line}>{line}</List.Item>
            ))}
          </List>
        )}
      </Card>
      {needs.license && (
        <Card>
          <Title order={2} mb="xs">
            {t('license')}
          </Title>
          <Text size="sm" style={{ whiteSpace: 'pre-line', overflowWrap: 'anywhere' }}>
            {needs.license}
          </Text>
        </Card>
      )}
    </>
  );
}
