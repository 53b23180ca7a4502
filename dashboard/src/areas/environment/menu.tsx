import { Button, Group, Menu, Stack, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconPencil, IconPlayerPlay, IconTags, IconTrash, IconUnlink } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { catalogApi, data } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { useExplained, useFailure } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
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
  /** A deployment has begun. */
  began?: () => Promise<void>;
  /** What was chosen that a dialog asks more about. */
  ask: (what: Asked) => void;
}

export type Asked = 'destroy' | 'abandon' | 'rename' | 'metadata';

/** What can be done with an environment. Its dialogs are `EnvironmentDialogs`, of whoever stays when this menu does not. */
export function EnvironmentMenu({ environment, label, deploys = false, began, ask }: MenuProps) {
  const t = useTexts(messages);
  const { may } = useSession();
  const queries = useQueryClient();
  const failed = useFailure();
  const { id } = environment;
  const start = async () => {
    try {
      const begun = await deploy(queries, environment);
      notifications.show({ message: t(begun ? 'deployStarted' : 'deployNothing') });
      if (begun) await began?.();
      await refreshEnvironment(queries, id);
    } catch (error) {
      failed(error);
    }
  };
  return (
    <More label={label} framed={!deploys}>
      {() => (
        <>
          {deploys && may('deploy_session') && allowed('deploy', environment) && (
            <Menu.Item leftSection={<IconPlayerPlay size={16} />} onClick={() => void start()}>
              {environment.version > 0 ? t('update') : t('deploy')}
            </Menu.Item>
          )}
          {may('update_environment') && (
            <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => ask('rename')}>
              {t('rename')}
            </Menu.Item>
          )}
          {!hasServices(environment) && may('update_environment') && (
            <Menu.Item leftSection={<IconTags size={16} />} disabled={isBusy(environment.status)} onClick={() => ask('metadata')}>
              {t('metadata')}
            </Menu.Item>
          )}
          {may('delete_environment') && <Menu.Divider />}
          {may('delete_environment') && (
            <Menu.Item color="red" leftSection={<IconTrash size={16} />} disabled={!allowed('destroy', environment)} onClick={() => ask('destroy')}>
              {t('destroy')}
            </Menu.Item>
          )}
          {may('delete_environment') && allowed('abandon', environment) && (
            <Menu.Item color="red" leftSection={<IconUnlink size={16} />} onClick={() => ask('abandon')}>
              {t('abandon')}
            </Menu.Item>
          )}
        </>
      )}
    </More>
  );
}

interface DialogsProps {
  environment: Environment;
  asked: Asked | undefined;
  onClose: () => void;
  onAbandoned?: () => void;
}

/** The dialogs of an environment's menu. Not in the menu: lists make their rows anew while somebody fills a dialog in. */
export function EnvironmentDialogs({ environment, asked, onClose, onAbandoned }: DialogsProps) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const { id, name } = environment;
  return (
    <>
      {asked === 'metadata' && <MetadataDialog environmentId={id} name={name} onClose={onClose} />}
      {asked === 'rename' && <Rename environment={environment} onClose={onClose} />}
      {(asked === 'destroy' || asked === 'abandon') && (
        <Confirm
          opened
          onClose={onClose}
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
    <FormDialog opened onClose={onClose} title={t('rename')}>
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
    </FormDialog>
  );
}
