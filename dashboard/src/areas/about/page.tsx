import { Badge, Card, Group, Select, SimpleGrid, Stack, Table, Text, Title, useMantineColorScheme, type MantineColorScheme } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { data, sessionApi } from '~/api/client';
import { useSession } from '~/app/session';
import { repositoryQuery } from '~/areas/packages/queries';
import { LANGUAGES, useLanguage, useTexts, type Language } from '~/i18n';
import { Page } from '~/ui/page';
import { When } from '~/ui/when';
import { messages } from './messages';

/** The settings of this browser, who is signed in, and how the parts of the service are. */
export function About() {
  const t = useTexts(messages);
  const { user, project, roles, expires, settings, may } = useSession();
  const { data: repository } = useQuery({ ...repositoryQuery, enabled: may('get_package') });
  const { language, setLanguage } = useLanguage();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const parts = useQuery({
    queryKey: ['health'],
    queryFn: () => data(sessionApi.GET('/api/health')),
    refetchInterval: 10_000,
    retry: 1,
  });
  const wrong = parts.data?.parts.some((one) => one.problem) ?? false;
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
                  <Badge color={wrong ? 'red' : 'glass'} variant="light" tt="none" radius="sm">
                    {t(wrong ? 'notReady' : 'ready')}
                  </Badge>
                )
              )}
            </div>
            <Table variant="vertical" withRowBorders={false} aria-label={t('parts')}>
              <Table.Tbody>
                {parts.data?.parts.map((one) => (
                  <Table.Tr key={one.name}>
                    <Table.Th w={140} scope="row">
                      {`part_${one.name}` in messages.en ? t(`part_${one.name}` as keyof typeof messages.en) : one.name}
                    </Table.Th>
                    <Table.Td style={{ overflowWrap: 'anywhere' }}>
                      <Group gap="xs" wrap="nowrap" align="flex-start">
                        {one.problem ? <IconAlertTriangle size={18} color="var(--mantine-color-error)" aria-label={t('bad')} /> : <IconCircleCheck size={18} color="var(--mantine-color-anchor)" aria-label={t('good')} />}
                        <span>{one.problem || one.made_of || t('fine')}</span>
                      </Group>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
            <Text size="sm" c="dimmed">
              Vetro {parts.data?.version} · {t('more')} <Link to="/machines" search={{ tab: 'nodes' }}>{t('nodes')}</Link>
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
          </Stack>
        </Card>
        <Card component="section" aria-label={t('service')}>
          <Title order={2}>{t('service')}</Title>
          <Text size="sm" c="dimmed" mb="sm">
            {t('serviceLead')}
          </Text>
          <Table variant="vertical" withRowBorders={false} aria-label={t('service')}>
            <Table.Tbody>
              {(
                [
                  [t('setTitle'), settings.title],
                  [t('setPackage'), `${settings.package_mib} MiB`],
                  [t('setRepository'), repository?.url ?? t('none')],
                  [t('setNetwork'), settings.fixed_network || t('chosenByUser')],
                  [t('setImages'), settings.image_project ? t('imagesOf', { id: settings.image_project }) : t('allImages')],
                ] as const
              ).map(([name, value]) => (
                <Table.Tr key={name}>
                  <Table.Th w={180} scope="row">
                    {name}
                  </Table.Th>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Card>
      </SimpleGrid>
    </Page>
  );
}
