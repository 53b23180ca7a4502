import { Button, Group, Radio, Stack, Text, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError, catalogApi, data } from '~/api/client';
import { environmentsQuery, isBusy } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Dialog } from '~/ui/dialog';
import { useExplained } from '~/ui/failure';
import { messages } from './messages';

/** "Add": into the environment that one comes from, into another, or into a new one. */
export function AddButton({ packageId, environment, opened = false }: { packageId: string; environment?: string | undefined; opened?: boolean }) {
  const t = useTexts(messages);
  const navigate = useNavigate();
  const [asking, setAsking] = useState(opened);
  const go = (environmentId: string, made = false) => void navigate({ to: '/environments/$environmentId/add/$packageId', params: { environmentId, packageId }, search: made ? { made } : {} });
  return (
    <>
      <Button leftSection={<IconPlus size={16} />} onClick={() => (environment ? go(environment) : setAsking(true))}>
        {t('add')}
      </Button>
      {asking && <ChooseEnvironment onClose={() => setAsking(false)} onChosen={go} />}
    </>
  );
}

/** The next free name; somebody else may have it a moment later, then the one after that is tried. */
export function freeName(taken: Iterable<string>): string {
  const numbers = [...taken].flatMap((name) => /^quick-env-(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  return `quick-env-${Math.max(0, ...numbers) + 1}`;
}

/** Asks which environment an application goes into; a new one can be made. */
export function ChooseEnvironment({ onClose, onChosen }: { onClose: () => void; onChosen: (id: string, made: boolean) => void }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const queries = useQueryClient();
  const { data: environments = [] } = useQuery(environmentsQuery);
  const [chosen, setChosen] = useState<string | null>(null);
  const [name, setName] = useState('');
  const [problem, setProblem] = useState('');
  const wanted = chosen ?? environments.find((one) => !isBusy(one.status))?.id ?? 'new';
  const go = async () => {
    if (wanted !== 'new') return onChosen(wanted, false);
    const taken = new Set(environments.map((one) => one.name));
    for (let tries = 0; tries < 20; tries += 1) {
      const tried = name.trim() || freeName(taken);
      try {
        const made = await data(catalogApi.POST('/v1/environments', { body: { name: tried } }));
        await queries.invalidateQueries({ queryKey: environmentsQuery.queryKey });
        return onChosen(made.id, true);
      } catch (error) {
        if (name.trim() || !(error instanceof ApiError) || error.status !== 409) return setProblem(explained(error).text);
        taken.add(tried);
      }
    }
  };
  return (
    <Dialog opened onClose={onClose} title={t('where')}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void go();
        }}
      >
        <Stack>
          <Radio.Group value={wanted} onChange={setChosen} aria-label={t('where')}>
            <Stack gap="xs" mah={260} style={{ overflowY: 'auto' }}>
              {environments.map((one) => (
                <Radio key={one.id} value={one.id} label={one.name} disabled={isBusy(one.status)} />
              ))}
              <Radio value="new" label={t('newEnvironment')} />
            </Stack>
          </Radio.Group>
          {wanted === 'new' && <TextInput label={t('newName')} placeholder={freeName(environments.map((one) => one.name))} value={name} error={problem} maxLength={255} onChange={(event) => setName(event.currentTarget.value)} />}
          {problem && wanted !== 'new' && <Text c="red">{problem}</Text>}
          <Group justify="flex-end">
            <Button type="submit">{t('continue')}</Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
