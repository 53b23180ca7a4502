import { Badge, Card, Select, SimpleGrid, Stack, Table, Text, Title, useMantineColorScheme, type MantineColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useSession } from '~/app/session';
import { LANGUAGES, useLanguage, useTexts, type Language } from '~/i18n';
import { Page } from '~/ui/page';
import { When } from '~/ui/when';
import { messages } from './messages';

interface Health {
  status: string;
  waiting_on: Record<string, string>;
}

/** The settings of this browser, who is signed in, and how the parts of the service are. */
export function About() {
  const t = useTexts(messages);
  const { user, project, roles, expires } = useSession();
  const { language, setLanguage } = useLanguage();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const parts = useQuery({
    queryKey: ['health'],
    queryFn: async (): Promise<{ health: Health; version: string }> => {
      const [ready, versions] = await Promise.all([fetch('/readyz'), fetch('/', { headers: { Accept: 'application/json' } })]);
      const { versions: known = [] } = (await versions.json()) as { versions?: { id: string; status: string }[] };
      return { health: (await ready.json()) as Health, version: known.map((one) => `${one.id} (${one.status})`).join(', ') };
    },
    refetchInterval: 10_000,
    retry: 1,
  });
  const waiting = Object.entries(parts.data?.health.waiting_on ?? {});
  return (
    <Page title={t('title')}>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Card component="section" aria-label={t('health')}>
          <Title order={2} mb="sm">
            {t('health')}
          </Title>
          <Stack gap="xs">
            <div role="status">
              {parts.error ? (
                <Badge color="red" variant="light" tt="none" radius="sm">
                  {t('silent')}
                </Badge>
              ) : (
                parts.data && (
                  <Badge color={waiting.length ? 'red' : 'glass'} variant="light" tt="none" radius="sm">
                    {t(waiting.length ? 'notReady' : 'ready')}
                  </Badge>
                )
              )}
            </div>
            {waiting.map(([part, problem]) => (
              <Text key={part} size="sm">
                <strong>{part}</strong>: {problem}
              </Text>
            ))}
            <Text size="sm" c="dimmed">
              {t('api')}: {parts.data?.version}
            </Text>
            <Text size="sm" c="dimmed">
              {t('more')}
            </Text>
          </Stack>
        </Card>
        <Card component="section" aria-label={t('account')}>
          <Title order={2} mb="sm">
            {t('account')}
          </Title>
          <Table variant="vertical" withRowBorders={false}>
            <Table.Tbody>
              {(
                [
                  [t('user'), user.name],
                  [t('project'), project.name],
                  [t('roles'), roles.join(', ')],
                  [t('until'), <When key="until" at={expires} />],
                ] as const
              ).map(([name, value]) => (
                <Table.Tr key={name}>
                  <Table.Th w={140}>{name}</Table.Th>
                  <Table.Td>{value}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Card>
        <Card component="section" aria-label={t('settings')}>
          <Title order={2} mb="sm">
            {t('settings')}
          </Title>
          <Stack>
            <Select
              label={t('appearance')}
              allowDeselect={false}
              data={(['light', 'dark', 'auto'] as const).map((one) => ({ value: one, label: t(one) }))}
              value={colorScheme}
              onChange={(chosen) => chosen && setColorScheme(chosen as MantineColorScheme)}
            />
            <Select
              label={t('language')}
              allowDeselect={false}
              data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
              value={language}
              onChange={(chosen) => chosen && setLanguage(chosen as Language)}
            />
            <Text size="sm" c="dimmed">
              {t('server')}
            </Text>
          </Stack>
        </Card>
      </SimpleGrid>
    </Page>
  );
}
