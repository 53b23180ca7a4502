import { ActionIcon, Anchor, Badge, Button, FileButton, Group, Switch } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconDownload, IconFileOff, IconTrash, IconUpload } from '@tabler/icons-react';
import { useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { useFailure } from '~/ui/failure';
import { Empty, Page } from '~/ui/page';
import { Rows } from '~/ui/rows';
import { messages } from './messages';
import { archiveOf, definitionsQuery, removeDefinition, toggleDefinition, uploadDefinition, type Definition } from './queries';

/** The service definitions of the project. */
export function Definitions() {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const writes = useSession().may('member_api');
  const { data: definitions } = useSuspenseQuery(definitionsQuery);
  const [removing, setRemoving] = useState<Definition>();
  const [replacing, setReplacing] = useState<File>();
  const done = async (message: string) => {
    await queries.invalidateQueries({ queryKey: ['definitions'] });
    notifications.show({ message });
  };
  const upload = async (file: File | null) => {
    if (!file) return;
    try {
      await uploadDefinition(file, false);
      await done(t('uploaded', { name: file.name }));
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) setReplacing(file);
      else failed(error);
    }
  };
  const toggle = async (name: string) => {
    try {
      await toggleDefinition(name);
      await queries.invalidateQueries({ queryKey: ['definitions'] });
    } catch (error) {
      failed(error);
    }
  };
  return (
    <Page
      title={t('title')}
      lead={t('lead')}
      actions={
        writes && <FileButton onChange={(file) => void upload(file)} accept=".gz,.tgz">
          {(props) => (
            <Button {...props} leftSection={<IconUpload size={16} />}>
              {t('upload')}
            </Button>
          )}
        </FileButton>
      }
    >
      {definitions.length === 0 ? (
        <Empty icon={IconFileOff} title={t('none')}>
          {t('noneText')}
        </Empty>
      ) : (
        <Rows
          label={t('title')}
          heads={[t('name'), t('version'), t('author'), t('state'), t('enabled'), t('actions')]}
          rows={definitions.map((one) => {
            const name = one.full_service_name;
            return {
              key: name,
              cells: [
                <Anchor key="name" fw={600} size="sm" renderRoot={(props) => <Link {...props} to="/definitions/$name" params={{ name }} />}>
                  {one.service_display_name || name}
                </Anchor>,
                String(one.service_version ?? '') || null,
                one.author || null,
                <Badge key="state" color={one.valid ? 'glass' : 'red'} variant="light" radius="sm" tt="none">
                  {t(one.valid ? 'valid' : 'invalid')}
                </Badge>,
                <Switch key="enabled" aria-label={t('enable', { name })} checked={one.enabled !== false} disabled={!writes} onChange={() => void toggle(name)} />,
                <Group key="actions" gap={4}>
                  <ActionIcon variant="subtle" component="a" href={archiveOf(name)} download={`${name}.tar.gz`} aria-label={t('download', { name })}>
                    <IconDownload size={18} />
                  </ActionIcon>
                  {writes && (
                    <ActionIcon variant="subtle" color="red" aria-label={t('remove', { name })} onClick={() => setRemoving(one)}>
                      <IconTrash size={18} />
                    </ActionIcon>
                  )}
                </Group>,
              ],
            };
          })}
        />
      )}
      <Confirm
        opened={removing !== undefined}
        onClose={() => setRemoving(undefined)}
        title={t('removeTitle', { name: removing?.full_service_name })}
        action={t('delete')}
        run={async () => {
          if (!removing) return;
          await removeDefinition(removing.full_service_name);
          await done(t('removed', { name: removing.full_service_name }));
        }}
      >
        {t('removeText')}
      </Confirm>
      <Confirm
        opened={replacing !== undefined}
        onClose={() => setReplacing(undefined)}
        title={t('replaceTitle')}
        action={t('replace')}
        run={async () => {
          if (!replacing) return;
          await uploadDefinition(replacing, true);
          await done(t('uploaded', { name: replacing.name }));
        }}
      >
        {replacing?.name}
      </Confirm>
    </Page>
  );
}
