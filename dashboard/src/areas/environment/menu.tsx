import { Button, Group, Menu, Stack, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconPencil, IconPlayerPlay, IconTags, IconTrash, IconUnlink } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { catalogApi, data } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { Dialog } from '~/ui/dialog';
import { useExplained, useFailure } from '~/ui/failure';
import { messages as common } from '~/ui/messages';
import { More } from '~/ui/more';
import { allowed, deploy, remove } from './many';
import { messages } from './messages';
import { MetadataDialog } from './metadata';
import { hasServices, isBusy, refreshEnvironment, type ListedEnvironment } from './queries';

type Environment = Pick<ListedEnvironment, 'id' | 'name' | 'status' | 'version' | 'model_kind'>;

interface MenuProps {
  environment: Environment;
  /** What a screen reader calls the button. */
  label: string;
  /** With "Deploy", where no button beside it says so. */
  deploys?: boolean;
  onAbandoned?: () => void;
}

/** What can be done with an environment, and the dialogs that ask for it. */
export function EnvironmentMenu({ environment, label, deploys = false, onAbandoned }: MenuProps) {
  const t = useTexts(messages);
  const { may } = useSession();
  const queries = useQueryClient();
  const failed = useFailure();
  const [asked, setAsked] = useState<'' | 'destroy' | 'abandon' | 'rename' | 'metadata'>('');
  const { id, name } = environment;
  const close = () => setAsked('');
  const start = async () => {
    try {
      const begun = await deploy(queries, environment);
      notifications.show({ message: t(begun ? 'deployStarted' : 'deployNothing') });
      await refreshEnvironment(queries, id);
    } catch (error) {
      failed(error);
    }
  };
  return (
    <>
      <More label={label} framed={!deploys}>
        {() => (
          <>
            {deploys && may('deploy_session') && allowed('deploy', environment) && (
              <Menu.Item leftSection={<IconPlayerPlay size={16} />} onClick={() => void start()}>
                {environment.version > 0 ? t('update') : t('deploy')}
              </Menu.Item>
            )}
            {may('update_environment') && (
              <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => setAsked('rename')}>
                {t('rename')}
              </Menu.Item>
            )}
            {!hasServices(environment) && may('update_environment') && (
              <Menu.Item leftSection={<IconTags size={16} />} disabled={isBusy(environment.status)} onClick={() => setAsked('metadata')}>
                {t('metadata')}
              </Menu.Item>
            )}
            {may('delete_environment') && <Menu.Divider />}
            {may('delete_environment') && (
              <Menu.Item color="red" leftSection={<IconTrash size={16} />} disabled={!allowed('destroy', environment)} onClick={() => setAsked('destroy')}>
                {t('destroy')}
              </Menu.Item>
            )}
            {may('delete_environment') && allowed('abandon', environment) && (
              <Menu.Item color="red" leftSection={<IconUnlink size={16} />} onClick={() => setAsked('abandon')}>
                {t('abandon')}
              </Menu.Item>
            )}
          </>
        )}
      </More>
      {asked === 'metadata' && <MetadataDialog environmentId={id} name={name} onClose={close} />}
      {asked === 'rename' && <Rename environment={environment} onClose={close} />}
      {(asked === 'destroy' || asked === 'abandon') && (
        <Confirm
          opened
          onClose={close}
          title={t(`${asked}Title`, { name })}
          action={t(asked)}
          typed={name}
          run={async () => {
            await remove(id, asked === 'abandon');
            await refreshEnvironment(queries, id);
            if (asked === 'abandon') onAbandoned?.();
          }}
        >
          {t(`${asked}Text`)}
        </Confirm>
      )}
    </>
  );
}

function Rename({ environment, onClose }: { environment: Environment; onClose: () => void }) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const queries = useQueryClient();
  const explained = useExplained();
  const [name, setName] = useState(environment.name);
  const [problem, setProblem] = useState('');
  const save = async () => {
    if (!name.trim()) return setProblem(t('nameBlank'));
    try {
      await data(catalogApi.PUT('/v1/environments/{environment_id}', { params: { path: { environment_id: environment.id } }, body: { name: name.trim() } }));
      await refreshEnvironment(queries, environment.id);
      onClose();
    } catch (error) {
      setProblem(explained(error).text);
    }
  };
  return (
    <Dialog opened onClose={onClose} title={t('rename')}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <Stack>
          <TextInput data-autofocus label={t('name')} value={name} error={problem} maxLength={255} onChange={(event) => setName(event.currentTarget.value)} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {c('cancel')}
            </Button>
            <Button type="submit">{t('save')}</Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
