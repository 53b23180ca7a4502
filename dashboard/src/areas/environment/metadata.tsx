import { ActionIcon, Alert, Button, Group, Loader, Stack, Text, TextInput } from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '~/api/client';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { useRowKeyboard } from '~/ui/keyboard';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { messages } from './messages';
import { ensureSession, refreshEnvironment, type Component } from './queries';

type Metadata = Record<string, unknown>;

interface MetadataProps {
  environmentId: string;
  /** Of the environment itself without it. */
  componentId?: string;
  name: string;
  onClose: () => void;
}

interface Objects {
  '?': { metadata?: unknown };
  services: Component[];
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const isMap = (value: unknown): value is Metadata => typeof value === 'object' && value !== null && !Array.isArray(value);

/** The notes that an environment or a component carries in its model: names and values. */
export function MetadataDialog({ environmentId, componentId, name, onClose }: MetadataProps) {
  const t = useTexts(messages);
  const explained = useExplained();
  const queries = useQueryClient();
  const opened = useQuery({
    queryKey: ['metadata', environmentId, componentId ?? ''],
    queryFn: async () => {
      const session = await ensureSession(queries, environmentId);
      const model = await call<Objects>('GET', `/v1/environments/${environmentId}/model/`, undefined, { 'X-Configuration-Session': session });
      const object = componentId === undefined ? model : model.services.find((one) => one['?'].id === componentId);
      return { session, given: object?.['?'].metadata ?? {} };
    },
    staleTime: Infinity,
    gcTime: 0,
  });
  return (
    <FormDialog opened onClose={onClose} title={t('metadataOf', { name })} size="lg">
      {opened.isLoadingError ? (
        <Alert color="red" variant="light">
          {explained(opened.error).text}
        </Alert>
      ) : !opened.data ? (
        <Loader aria-label="…" />
      ) : isMap(opened.data.given) ? (
        <Rows environmentId={environmentId} componentId={componentId} session={opened.data.session} given={opened.data.given} onClose={onClose} />
      ) : (
        <Text size="sm">{t('metadataOther')}</Text>
      )}
    </FormDialog>
  );
}

interface RowsProps {
  environmentId: string;
  componentId: string | undefined;
  session: string;
  given: Metadata;
  onClose: () => void;
}

function Rows({ environmentId, componentId, session, given, onClose }: RowsProps) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const queries = useQueryClient();
  const [rows, setRows] = useState<[string, string][]>(() => Object.entries(given).map(([key, value]) => [key, textOf(value)]));
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const { list, added, removed } = useRowKeyboard();
  // The dialog was mostly there before they were read, and has the keyboard at its cross. Its trap for the keyboard
  // looks for `data-autofocus` a moment after it was opened: on a busy machine after this.
  useEffect(() => list.current?.querySelector<HTMLElement>('[data-autofocus]')?.focus(), [list]);
  const add = () => {
    setRows((was) => [...was, ['', '']]);
    added();
  };
  const remove = (at: number) => {
    setRows((was) => was.filter((_, place) => place !== at));
    removed();
  };
  const change = (at: number, row: [string, string]) => setRows((was) => was.map((one, place) => (place === at ? row : one)));
  const save = async () => {
    const kept = rows.map(([key, value]): [string, string] => [key.trim(), value]).filter(([key, value]) => key || value);
    if (kept.some(([key]) => !key)) return setProblem(t('metadataNameless'));
    if (new Set(kept.map(([key]) => key)).size < kept.length) return setProblem(t('metadataTwice'));
    // What is not text stays what it was, unless somebody changes it.
    const value = Object.fromEntries(kept.map(([key, text]) => [key, key in given && textOf(given[key]) === text ? given[key] : text]));
    const path = componentId === undefined ? '/?/metadata' : `/services/${componentId}/?/metadata`;
    setBusy(true);
    try {
      await call('PATCH', `/v1/environments/${environmentId}/model/`, JSON.stringify([{ op: 'add', path, value }]), { 'Content-Type': 'application/env-model-json-patch', 'X-Configuration-Session': session });
      await refreshEnvironment(queries, environmentId);
      onClose();
    } catch (error) {
      setProblem(explained(error).text);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <Stack ref={list}>
        <Text size="sm" c="dimmed">
          {t('metadataText')}
        </Text>
        {rows.map(([key, value], at) => (
          <Group key={at} data-row wrap="nowrap" align="flex-end" gap="xs">
            <TextInput data-autofocus style={{ flex: 1 }} label={at === 0 ? t('metadataName') : undefined} aria-label={t('metadataName')} maxLength={255} value={key} onChange={(event) => change(at, [event.currentTarget.value, value])} />
            <TextInput style={{ flex: 2 }} label={at === 0 ? t('metadataValue') : undefined} aria-label={t('metadataValueOf', { name: key })} value={value} onChange={(event) => change(at, [key, event.currentTarget.value])} />
            <ActionIcon variant="subtle" color="red" size="lg" aria-label={t('metadataRemove', { name: key })} onClick={() => remove(at)}>
              <IconTrash size={18} />
            </ActionIcon>
          </Group>
        ))}
        <Group>
          <Button variant="default" size="xs" leftSection={<IconPlus size={14} />} data-add data-autofocus onClick={add}>
            {t('metadataAdd')}
          </Button>
        </Group>
        {problem && (
          <Alert color="red" variant="light" role="alert">
            {problem}
          </Alert>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {c('cancel')}
          </Button>
          <Button type="submit" loading={busy}>
            {t('save')}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
