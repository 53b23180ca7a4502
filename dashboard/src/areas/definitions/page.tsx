import { Alert, Badge, Button, Card, Group, List, NavLink, Stack, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconAlertTriangle, IconArrowBackUp, IconDeviceFloppy } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams, useSearch } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useFailure } from '~/ui/failure';
import { useLeaving } from '~/ui/leaving';
import { Page, PageError } from '~/ui/page';
import { messages } from './messages';
import classes from './page.module.css';
import { definitionQuery, fileQuery, saveFile } from './queries';

const Editor = lazy(async () => ({ default: (await import('./editor')).Editor }));

/** A service definition: its files, their texts, and what is wrong with it. */
export function DefinitionPage() {
  const t = useTexts(messages);
  const { name } = useParams({ from: '/shell/definitions/$name' });
  const { file: asked } = useSearch({ from: '/shell/definitions/$name' });
  const shown = useQuery(definitionQuery(name));
  // What was typed and not saved, by file: it stays while other files are looked at.
  const [typed, setTyped] = useState<Record<string, string>>({});
  const { changed, done, question } = useLeaving({ links: true });
  const unsaved = Object.keys(typed).length > 0;
  useEffect(unsaved ? changed : done, [unsaved, changed, done]);
  if (shown.isLoadingError) return <PageError error={shown.error} reset={() => void shown.refetch()} />;
  if (!shown.data) return null;
  const { info, files } = shown.data;
  const file = asked && files.includes(asked) ? asked : (files[0] ?? '');
  const set = (text: string | undefined) =>
    setTyped(({ [file]: _, ...rest }) => (text === undefined ? rest : { ...rest, [file]: text }));
  return (
    <Page
      wide
      title={info.service_display_name || name}
      path={[[t('title'), '/definitions']]}
      lead={info.description}
      aside={
        <Badge color={info.valid ? 'glass' : 'red'} variant="light" radius="sm" tt="none">
          {t(info.valid ? 'valid' : 'invalid')}
        </Badge>
      }
    >
      {question}
      <div className={classes.columns}>
        <nav aria-label={t('files')}>
          {files.map((one) => (
            <NavLink
              key={one}
              active={one === file}
              className={classes.file}
              label={one.slice(one.indexOf('/') + 1)}
              description={one.slice(0, one.indexOf('/'))}
              rightSection={one in typed ? <Badge size="xs" color="yellow" variant="light" tt="none">{t('unsaved')}</Badge> : null}
              renderRoot={(props) => <Link {...props} to="/definitions/$name" params={{ name }} search={{ file: one }} aria-current={one === file ? 'page' : undefined} />}
            />
          ))}
        </nav>
        <Stack className={classes.content}>
          {file && <File key={file} file={file} typed={typed[file]} set={set} />}
          <Findings errors={info.errors ?? []} warnings={info.warnings ?? []} />
        </Stack>
      </div>
    </Page>
  );
}

function File({ file, typed, set }: { file: string; typed: string | undefined; set: (text: string | undefined) => void }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const [busy, setBusy] = useState(false);
  const writes = useSession().may('member_api');
  const stored = useQuery(fileQuery(file));
  const save = async () => {
    if (typed === undefined) return;
    setBusy(true);
    try {
      await saveFile(file, typed);
      queries.setQueryData(fileQuery(file).queryKey, typed);
      set(undefined);
      await queries.invalidateQueries({ queryKey: ['definitions'], predicate: (one) => one.queryKey[1] !== 'file' });
      notifications.show({ message: t('saved', { file }) });
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  if (stored.isLoadingError) return <Text c="dimmed">{stored.error.message}</Text>;
  if (stored.data === undefined) return null;
  const changed = writes && typed !== undefined && typed !== stored.data;
  return (
    <section
      aria-label={file}
      onKeyDown={(event) => {
        if (event.key !== 's' || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        if (changed) void save();
      }}
    >
      <Group justify="space-between" mb="xs">
        <Text fw={600} className={classes.name}>
          {file}
        </Text>
        <Group gap="xs">
          <Button size="xs" variant="default" leftSection={<IconArrowBackUp size={14} />} disabled={!changed} onClick={() => set(undefined)}>
            {t('revert')}
          </Button>
          <Button size="xs" leftSection={<IconDeviceFloppy size={14} />} loading={busy} disabled={!changed} onClick={() => void save()}>
            {t('save')}
          </Button>
        </Group>
      </Group>
      <Suspense fallback={null}>
        <Editor file={file} text={typed ?? stored.data} label={t('editorOf', { file })} changed={(text) => set(text === stored.data ? undefined : text)} />
      </Suspense>
    </section>
  );
}

function Findings({ errors, warnings }: { errors: string[]; warnings: string[] }) {
  const t = useTexts(messages);
  return (
    <Card component="section" aria-label={t('findings')}>
      <Title order={2} mb="xs">
        {t('findings')}
      </Title>
      {errors.length + warnings.length === 0 && (
        <Text size="sm" c="dimmed">
          {t('noFindings')}
        </Text>
      )}
      {(
        [
          ['red', errors],
          ['yellow', warnings],
        ] as const
      ).map(
        ([color, found]) =>
          found.length > 0 && (
            <Alert key={color} color={color} variant="light" icon={<IconAlertTriangle size={18} />} mt="xs">
              <List size="sm">
                {found.map((one) => (
                  <List.Item key={one} className={classes.name}>
                    {one}
                  </List.Item>
                ))}
              </List>
            </Alert>
          ),
      )}
    </Card>
  );
}
