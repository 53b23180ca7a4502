import { Button, Group, Radio, Stack, TextInput } from '@mantine/core';
import { IconBolt, IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useSession } from '~/app/session';
import { environmentsQuery, hasServices, isBusy, type ListedEnvironment } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Dialog } from '~/ui/dialog';
import { currentOf, rememberCurrent } from './current';
import { nextName } from './making';
import { messages } from './messages';

/** "Add": into the environment that one comes from, into another, or into a new one; and at once into a new one. */
export function AddButton({ packageId, environment }: { packageId: string; environment?: string | undefined }) {
  const t = useTexts(messages);
  const { may } = useSession();
  const navigate = useNavigate();
  const [asking, setAsking] = useState(false);
  const go = (environmentId: string) => void navigate({ to: '/environments/$environmentId/add/$packageId', params: { environmentId, packageId } });
  return (
    <>
      {may('create_environment') && !environment && (
        <Button variant="default" leftSection={<IconBolt size={16} />} onClick={() => void navigate({ to: '/catalog/$packageId/deploy', params: { packageId } })}>
          {t('quick')}
        </Button>
      )}
      {may('update_services') && (
        <Button leftSection={<IconPlus size={16} />} onClick={() => (environment ? go(environment) : setAsking(true))}>
          {t('add')}
        </Button>
      )}
      {asking && <ChooseEnvironment packageId={packageId} onClose={() => setAsking(false)} />}
    </>
  );
}

/** Environments that an application can be added to now. */
export const takesApplications = (one: ListedEnvironment) => !isBusy(one.status) && !hasServices(one);

/** Asks which environment an application goes into, the last chosen first; a new one can be made. */
export function ChooseEnvironment({ packageId, onClose }: { packageId: string; onClose: () => void }) {
  const t = useTexts(messages);
  const { project, may } = useSession();
  const navigate = useNavigate();
  const { data: environments = [] } = useQuery(environmentsQuery);
  const [chosen, setChosen] = useState<string | null>(null);
  const [name, setName] = useState('');
  const wanted = chosen ?? currentOf(project.id, environments.filter(takesApplications)) ?? 'new';
  const go = () => {
    if (wanted === 'new') return void navigate({ to: '/catalog/$packageId/deploy', params: { packageId }, search: name.trim() ? { name: name.trim() } : {} });
    rememberCurrent(project.id, wanted);
    void navigate({ to: '/environments/$environmentId/add/$packageId', params: { environmentId: wanted, packageId } });
  };
  return (
    <Dialog opened onClose={onClose} title={t('where')}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          go();
        }}
      >
        <Stack>
          <Radio.Group value={wanted} onChange={setChosen} aria-label={t('where')}>
            <Stack gap="xs" mah={260} style={{ overflowY: 'auto' }}>
              {environments.filter((one) => !hasServices(one)).map((one) => (
                <Radio key={one.id} value={one.id} label={one.name} disabled={isBusy(one.status)} />
              ))}
              {may('create_environment') && <Radio value="new" label={t('newEnvironment')} />}
            </Stack>
          </Radio.Group>
          {wanted === 'new' && <TextInput label={t('newName')} placeholder={nextName(environments.map((one) => one.name))} value={name} maxLength={255} onChange={(event) => setName(event.currentTarget.value)} />}
          <Group justify="flex-end">
            <Button type="submit">{t('continue')}</Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
