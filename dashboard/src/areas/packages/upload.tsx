import { Alert, Badge, Button, Card, Checkbox, FileButton, Group, MultiSelect, Progress, Stack, Text } from '@mantine/core';
import { IconCheck, IconFileZip } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { ApiError } from '~/api/client';
import { categoriesQuery } from '~/areas/catalog/queries';
import { remember } from '~/app/recent';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Dialog } from '~/ui/dialog';
import { useOnce } from '~/ui/once';
import { useExplained } from '~/ui/failure';
import { FindingList } from './findings';
import { useTooLarge } from './limit';
import { messages } from './messages';
import { addPackage, checkPackage, refreshPackages, replacePackage, type Finding } from './queries';

interface Entry {
  file: File;
  state: 'checking' | 'checked' | 'adding' | 'added' | 'replaced' | 'known' | 'refused';
  part: number;
  findings: Finding[];
  problem: string;
  /** The package of this name and version that the project has. */
  existing?: string;
}

const isDone = (one: Entry) => one.state === 'added' || one.state === 'replaced';

/** Checks archives as they are dropped, shows what is wrong with them, and adds the good ones. */
export function UploadDialog({ dropped, onClose }: { dropped: File[]; onClose: () => void }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const queries = useQueryClient();
  const { may, project } = useSession();
  const tooLarge = useTooLarge();
  const { data: known = [] } = useQuery(categoriesQuery);
  const [entries, setEntries] = useState<Entry[]>([]);
  const [isPublic, setPublic] = useState(false);
  const [enabled, setEnabled] = useState(true);
  const [categories, setCategories] = useState<string[]>([]);
  const begun = useRef(false);
  const change = (file: File, by: Partial<Entry>) => setEntries((all) => all.map((one) => (one.file === file ? { ...one, ...by } : one)));
  const take = (files: File[]) => {
    setEntries((all) => [...all, ...files.map((file): Entry => ({ file, state: 'checking', part: 0, findings: [], problem: '' }))]);
    for (const file of files) {
      const problem = tooLarge(file);
      if (problem) {
        change(file, { state: 'refused', problem });
        continue;
      }
      checkPackage(file, (part) => change(file, { part }))
        .then(({ findings }) => change(file, { state: findings.some((one) => one.level === 'error') ? 'refused' : 'checked', findings }))
        .catch((error: unknown) => change(file, { state: 'refused', problem: explained(error).text }));
    }
  };
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    take(dropped);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  const ready = entries.filter((one) => one.state === 'checked');
  const add = useOnce(async () => {
    for (const { file } of ready) {
      change(file, { state: 'adding', part: 0 });
      try {
        const added = await addPackage(file, { is_public: isPublic, enabled, categories }, (part) => change(file, { part }));
        remember(project.id, added.id);
        change(file, { state: 'added' });
      } catch (error) {
        const conflict = error instanceof ApiError && error.status === 409;
        const existing = error instanceof ApiError ? error.more['package_id'] : undefined;
        change(file, { state: conflict ? 'known' : 'refused', problem: explained(error).text, ...(typeof existing === 'string' ? { existing } : {}) });
      }
    }
    await refreshPackages(queries);
  });
  const replace = useOnce(async ({ file, existing = '' }: Entry) => {
    change(file, { state: 'adding', part: 0, problem: '' });
    try {
      await replacePackage(existing, file, (part) => change(file, { part }));
      change(file, { state: 'replaced' });
    } catch (error) {
      change(file, { state: 'refused', problem: explained(error).text });
    }
    await refreshPackages(queries);
  });
  return (
    <Dialog opened onClose={onClose} title={t('upload')} size="xl">
      <Stack>
        <Card
          withBorder
          padding="lg"
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            event.preventDefault();
            event.stopPropagation();
            take([...event.dataTransfer.files]);
          }}
        >
          <Group justify="center">
            <IconFileZip size={28} stroke={1.5} aria-hidden />
            <Text size="sm">{t('drop')}</Text>
            <FileButton multiple accept=".zip,application/zip" onChange={(files) => take(files)}>
              {(props) => (
                <Button {...props} variant="default" size="xs">
                  {t('choose')}
                </Button>
              )}
            </FileButton>
          </Group>
        </Card>
        {entries.map((one, index) => (
          <Card key={index} withBorder padding="sm" component="section" aria-label={one.file.name}>
            <Group justify="space-between" wrap="nowrap">
              <Text fw={600} size="sm" style={{ overflowWrap: 'anywhere' }}>
                {one.file.name}
              </Text>
              <Badge tt="none" radius="sm" variant="light" color={isDone(one) ? 'glass' : one.state === 'refused' ? 'red' : 'gray'} leftSection={isDone(one) ? <IconCheck size={12} /> : null}>
                {t(`state_${one.state}`)}
              </Badge>
            </Group>
            {(one.state === 'checking' || one.state === 'adding') && <Progress mt="xs" value={100 * one.part} animated={one.part === 1} aria-label={t(`state_${one.state}`)} />}
            {one.problem && (
              <Alert mt="xs" color="red" variant="light" role="alert">
                {one.problem}
              </Alert>
            )}
            {one.state === 'known' && one.existing !== undefined && may('modify_package') && (
              <Group mt="xs" justify="space-between">
                <Text size="sm">{t('replaceText')}</Text>
                <Button size="xs" variant="default" onClick={() => replace(one)}>
                  {t('replace')}
                </Button>
              </Group>
            )}
            {(one.state === 'checked' || (one.state === 'refused' && one.findings.length > 0)) && <FindingList findings={one.findings} />}
          </Card>
        ))}
        {entries.length > 0 && (
          <>
            <Group>
              <Checkbox label={t('enabled')} checked={enabled} onChange={(event) => setEnabled(event.currentTarget.checked)} />
              <Checkbox label={t('publicAll')} checked={isPublic} disabled={!may('publicize_package')} onChange={(event) => setPublic(event.currentTarget.checked)} />
            </Group>
            {known.length > 0 && <MultiSelect label={t('categories')} data={known.map((one) => one.name)} value={categories} onChange={setCategories} />}
          </>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t('done')}
          </Button>
          <Button disabled={ready.length === 0} onClick={() => add()}>
            {t('addCount', { count: ready.length })}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
