import { Alert, Badge, Button, Card, Checkbox, FileButton, Group, List, Loader, MultiSelect, SegmentedControl, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, type Catalog } from '~/api/client';
import { categoriesQuery } from '~/areas/catalog/queries';
import { remember } from '~/app/recent';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { useTooLarge } from './limit';
import { messages } from './messages';
import { addPackage, bundleOf, importPackage, refreshPackages, repositoryQuery } from './queries';

type Outcome = Catalog['ImportOutcome'];

interface Entry {
  name: string;
  version: string | null;
  url?: string | null;
  sha256?: string | null;
  state: 'waiting' | 'importing' | 'done';
  outcomes: Outcome[];
}

const COLORS: Record<Outcome['result'], string> = { imported: 'glass', known: 'gray', missing: 'yellow', failed: 'red' };
const isAddress = (text: string) => /^https?:\/\//.test(text);

/** Imports a package or a bundle from the repository, an address or a file, and shows what came of each. */
export function ImportDialog({ onClose }: { onClose: () => void }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const queries = useQueryClient();
  const { may, project } = useSession();
  const tooLarge = useTooLarge();
  const { data: repository } = useQuery(repositoryQuery);
  const { data: categories = [] } = useQuery(categoriesQuery);
  const [kind, setKind] = useState<'package' | 'bundle'>('package');
  const [source, setSource] = useState('');
  const [version, setVersion] = useState('');
  const [files, setFiles] = useState<File[]>([]);
  const [isPublic, setPublic] = useState(false);
  const [enabled, setEnabled] = useState(true);
  const [filed, setFiled] = useState<string[]>([]);
  const [entries, setEntries] = useState<Entry[]>([]);
  const [skipped, setSkipped] = useState<string[]>([]);
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const shared = { is_public: isPublic, enabled, categories: filed };
  const bundle = files.find((one) => !one.name.endsWith('.zip'));

  const listed = async (): Promise<Entry[]> => {
    const text = source.trim();
    if (kind === 'package') return [{ name: isAddress(text) ? '' : text, version: version.trim() || null, url: isAddress(text) ? text : null, state: 'waiting', outcomes: [] }];
    const found = await bundleOf(bundle ? { text: await bundle.text() } : { source: text });
    setSkipped(found.skipped);
    return found.packages.map((one) => ({ ...one, state: 'waiting', outcomes: [] }));
  };

  /** An archive that was chosen together with the bundle comes before the repository. */
  const one = async (entry: Entry): Promise<Outcome[]> => {
    const beside = files.find((file) => file.name === `${entry.name}.zip`);
    const at = { name: entry.name, version: entry.version, id: null, images: [] };
    try {
      if (!beside) {
        const { name, version: wanted, url, sha256 } = entry;
        return (await importPackage({ ...shared, ...(name ? { name } : {}), ...(wanted ? { version: wanted } : {}), ...(url ? { url } : {}), ...(sha256 ? { sha256 } : {}) })).outcomes;
      }
      const problem = tooLarge(beside);
      if (problem) return [{ ...at, result: 'failed', reason: problem }];
      const added = await addPackage(beside, shared, () => undefined);
      return [{ ...at, version: added.version, id: added.id, result: 'imported', reason: '' }];
    } catch (error) {
      const known = beside && error instanceof ApiError && error.status === 409;
      return [{ ...at, result: known ? 'known' : 'failed', reason: explained(error).text }];
    }
  };

  const run = async () => {
    setBusy(true);
    setProblem('');
    setSkipped([]);
    setEntries([]);
    try {
      const all = await listed();
      setEntries(all);
      if (all.length === 0) setProblem(t('bundleEmpty'));
      for (const [place, entry] of all.entries()) {
        const change = (by: Partial<Entry>) => setEntries((was) => was.map((other, at) => (at === place ? { ...other, ...by } : other)));
        change({ state: 'importing' });
        const outcomes = await one(entry);
        for (const { id } of outcomes) if (id) remember(project.id, id);
        change({ state: 'done', outcomes });
      }
      await refreshPackages(queries);
    } catch (error) {
      setProblem(explained(error).text);
    } finally {
      setBusy(false);
    }
  };
  const done = entries.filter((entry) => entry.state === 'done');
  const count = (result: Outcome['result']) => done.flatMap((entry) => entry.outcomes).filter((outcome) => outcome.result === result).length;
  return (
    <FormDialog opened onClose={onClose} title={t('import')} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <Stack>
          <SegmentedControl
            fullWidth
            aria-label={t('importWhat')}
            value={kind}
            onChange={(value) => setKind(value as typeof kind)}
            data={[
              { value: 'package', label: t('importPackage') },
              { value: 'bundle', label: t('importBundle') },
            ]}
          />
          <TextInput
            data-autofocus
            label={t('importSource')}
            description={repository && (repository.url ? t('importFrom', { url: repository.url }) : t(repository.any_address ? 'importAddress' : 'importNowhere'))}
            required={!bundle}
            disabled={kind === 'bundle' && bundle !== undefined}
            value={source}
            error={problem}
            onChange={(event) => setSource(event.currentTarget.value)}
          />
          {kind === 'package' ? (
            <TextInput label={t('importVersion')} placeholder="1.0.0" value={version} onChange={(event) => setVersion(event.currentTarget.value)} />
          ) : (
            <Group>
              <FileButton multiple accept=".bundle,.json,.yaml,.zip" onChange={setFiles}>
                {(props) => (
                  <Button {...props} variant="default" size="xs">
                    {t('chooseBundle')}
                  </Button>
                )}
              </FileButton>
              <Text size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                {files.map((file) => file.name).join(', ') || t('chooseBundleHint')}
              </Text>
            </Group>
          )}
          <Group>
            <Checkbox label={t('enabled')} checked={enabled} onChange={(event) => setEnabled(event.currentTarget.checked)} />
            <Checkbox label={t('publicAll')} checked={isPublic} disabled={!may('publicize_package')} onChange={(event) => setPublic(event.currentTarget.checked)} />
          </Group>
          {categories.length > 0 && <MultiSelect label={t('categories')} data={categories.map((category) => category.name)} value={filed} onChange={setFiled} />}
          {skipped.length > 0 && (
            <Alert color="yellow" variant="light" title={t('bundleSkipped')}>
              {skipped.map((text) => (
                <Text key={text} size="sm">
                  {text}
                </Text>
              ))}
            </Alert>
          )}
          {entries.length > 0 && (
            <Card withBorder padding="sm" component="section" aria-label={t('importOutcome')}>
              <Text size="sm" mb="xs" role="status">
                {t('importSum', { done: done.length, count: entries.length, imported: count('imported'), known: count('known'), failed: count('failed') + count('missing') })}
              </Text>
              <List listStyleType="none" spacing="xs" size="sm">
                {entries.map((entry, place) => (
                  <List.Item key={place}>
                    {entry.state === 'done' ? entry.outcomes.map((outcome, at) => <Result key={at} outcome={outcome} />) : <Waiting entry={entry} />}
                  </List.Item>
                ))}
              </List>
            </Card>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {t('done')}
            </Button>
            <Button type="submit" loading={busy} disabled={!source.trim() && !(kind === 'bundle' && bundle)}>
              {t('importAction')}
            </Button>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}

function Waiting({ entry }: { entry: Entry }) {
  const t = useTexts(messages);
  return (
    <Group gap="xs" wrap="nowrap">
      {entry.state === 'importing' ? <Loader size={14} aria-label={t('importing')} /> : <Text c="dimmed">…</Text>}
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        {entry.name || entry.url} {entry.version}
      </Text>
    </Group>
  );
}

function Result({ outcome }: { outcome: Outcome }) {
  const t = useTexts(messages);
  return (
    <div>
      <Group gap="xs">
        <Badge size="sm" radius="sm" tt="none" variant="light" color={COLORS[outcome.result]}>
          {t(`result_${outcome.result}`)}
        </Badge>
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          {outcome.name} {outcome.version}
        </Text>
      </Group>
      {outcome.result !== 'known' && outcome.reason && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-line' }}>
          {outcome.reason}
        </Text>
      )}
      {outcome.images.length > 0 && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          {t('importImages', { images: outcome.images.join(', ') })}
        </Text>
      )}
    </div>
  );
}
