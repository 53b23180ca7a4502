import { Badge, Button, Card, Group, NumberInput, Progress, Select, SimpleGrid, Stack, Switch, Text, ThemeIcon } from '@mantine/core';
import { IconCheck, IconFilter, IconServer, IconX } from '@tabler/icons-react';
import { useMutation, useSuspenseQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { explain, filtersOf, type Explanation, type Filter } from './explanation';
import { messages } from './messages';
import classes from './placement.module.css';
import { imagesQuery, serversQuery } from './queries';

/** Where a machine would go, and why: the filters of an allocation one after the other. Nothing is reserved. */
export function Placement() {
  const t = useTexts(messages);
  const { project } = useSession();
  const explained = useExplained();
  const { data: images } = useSuspenseQuery(imagesQuery);
  const { data: servers } = useSuspenseQuery(serversQuery);
  const [image, setImage] = useState(images[0]?.uuid ?? null);
  const [memory, setMemory] = useState<number | string>(1024);
  const [disk, setDisk] = useState<number | string>(10);
  const [vcpus, setVcpus] = useState<number | string>(1);
  const names = new Map(servers.map((one) => [one.uuid ?? '', one.hostname ?? one.uuid ?? '']));
  const asked = useMutation({
    mutationFn: () => explain({ owner: project.id, image: images.find((one) => one.uuid === image), memory: Number(memory), disk: Number(disk), vcpus: Number(vcpus) }),
  });
  return (
    <Stack>
      <Card>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            asked.mutate();
          }}
        >
          <Text mb="sm">{t('placementLead')}</Text>
          <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }}>
            <Select label={t('image')} required allowDeselect={false} searchable data={images.map((one) => ({ value: one.uuid, label: one.name }))} value={image} onChange={setImage} />
            <NumberInput label={t('memoryMib')} required min={1} value={memory} onChange={setMemory} />
            <NumberInput label={t('diskGib')} required min={1} value={disk} onChange={setDisk} />
            <NumberInput label={t('processors')} required min={1} value={vcpus} onChange={setVcpus} />
          </SimpleGrid>
          <Group justify="flex-end" mt="md">
            <Button type="submit" leftSection={<IconFilter size={16} />} loading={asked.isPending}>
              {t('explain')}
            </Button>
          </Group>
        </form>
      </Card>
      {asked.error && (
        <Text c="red" role="alert">
          {explained(asked.error).text}
        </Text>
      )}
      {asked.data && <Pipeline of={asked.data} names={names} />}
    </Stack>
  );
}

function Pipeline({ of, names }: { of: Explanation; names: ReadonlyMap<string, string> }) {
  const t = useTexts(messages);
  const [all, setAll] = useState(false);
  const filters = filtersOf(of);
  const total = filters[0]?.left.length ?? 0;
  const shown = filters.filter((one, index) => all || index === 0 || one.removed.length > 0);
  const nameOf = (uuid: string) => names.get(uuid) ?? uuid;
  return (
    <section aria-label={t('explanation')}>
      <Group justify="space-between" mb="md">
        <Group gap="xs" role="status">
          <ThemeIcon radius="xl" size="lg" variant="light" color={of.chosen ? 'glass' : 'red'} aria-hidden>
            {of.chosen ? <IconCheck size={18} /> : <IconX size={18} />}
          </ThemeIcon>
          <Text fw={600}>{of.chosen ? t('goesTo', { name: nameOf(of.chosen) }) : of.problem}</Text>
        </Group>
        <Switch size="sm" label={t('allFilters')} checked={all} onChange={(event) => setAll(event.currentTarget.checked)} />
      </Group>
      <ol className={classes.pipeline}>
        {shown.map((one) => (
          <Step key={one.key} filter={one} total={total} nameOf={nameOf} />
        ))}
      </ol>
      {!all && shown.length < filters.length && (
        <Text size="sm" c="dimmed" mt="sm">
          {t('filtersWithoutEffect', { count: filters.length - shown.length })}
        </Text>
      )}
    </section>
  );
}

function Step({ filter, total, nameOf }: { filter: Filter; total: number; nameOf: (uuid: string) => string }) {
  const t = useTexts(messages);
  return (
    <li className={classes.step} data-removes={filter.removed.length > 0 || undefined}>
      <Group justify="space-between" gap="xs">
        <Text fw={600}>{filter.name}</Text>
        <Text size="sm" c="dimmed">
          {t('serversLeft', { count: filter.left.length })}
        </Text>
      </Group>
      <Progress value={total ? (100 * filter.left.length) / total : 0} size="sm" my={6} aria-label={t('serversLeft', { count: filter.left.length })} color={filter.left.length ? 'glass' : 'red'} />
      {filter.remark && (
        <Text size="sm" c="dimmed">
          {filter.remark}
        </Text>
      )}
      {filter.removed.map(({ reason, servers }) => (
        <Group key={reason} gap={6} mt={4}>
          {servers.map((uuid) => (
            <Badge key={uuid} color="red" variant="light" radius="sm" tt="none" leftSection={<IconServer size={12} />}>
              {nameOf(uuid)}
            </Badge>
          ))}
          <Text size="sm">{reason}</Text>
        </Group>
      ))}
    </li>
  );
}
