import { ActionIcon, Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { IconHistory, IconTrash } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { When } from '~/ui/when';
import { messages } from './messages';
import { changeSnapshot, snapshotsQuery, type Server, type Vm } from './queries';

type Asked = { what: 'rollback' | 'delete'; name: string } | null;

/** The snapshots of an instance: take one, go back to one, delete one. */
export function Snapshots({ instance, name, onClose }: { instance: Vm & { server: Server }; name: string; onClose: () => void }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const queries = useQueryClient();
  const shown = useQuery(snapshotsQuery(instance));
  const [called, setCalled] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState<Asked>(null);
  const run = async (what: 'take' | 'rollback' | 'delete', snapshot: string) => {
    await changeSnapshot(instance, what, snapshot);
    await queries.invalidateQueries({ queryKey: ['machines'] });
  };
  const take = async () => {
    setBusy(true);
    setProblem('');
    try {
      await run('take', called.trim());
      setCalled('');
    } catch (error) {
      setProblem(explained(error).text);
    } finally {
      setBusy(false);
    }
  };
  return (
    <FormDialog opened onClose={onClose} title={t('snapshotsOf', { name })}>
      <Stack>
        {(shown.error ?? shown.data?.length === 0) && (
          <Text size="sm" c="dimmed">
            {shown.error ? explained(shown.error).text : t('noSnapshots')}
          </Text>
        )}
        {shown.data?.map((one) => (
          <Group key={one.name} justify="space-between">
            <Text>
              {one.name}{' '}
              <Text span size="sm" c="dimmed">
                <When at={one.created_at} />
              </Text>
            </Text>
            <Group gap={4}>
              <ActionIcon variant="subtle" aria-label={t('rollbackTo', { name: one.name })} onClick={() => setAsked({ what: 'rollback', name: one.name })}>
                <IconHistory size={18} />
              </ActionIcon>
              <ActionIcon variant="subtle" color="red" aria-label={t('deleteSnapshot', { name: one.name })} onClick={() => setAsked({ what: 'delete', name: one.name })}>
                <IconTrash size={18} />
              </ActionIcon>
            </Group>
          </Group>
        ))}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void take();
          }}
        >
          <Group align="flex-end">
            <TextInput data-autofocus label={t('snapshotName')} required maxLength={64} value={called} error={problem} onChange={(event) => setCalled(event.currentTarget.value)} />
            <Button type="submit" loading={busy}>
              {t('takeSnapshot')}
            </Button>
          </Group>
        </form>
      </Stack>
      <Confirm
        opened={asked !== null}
        onClose={() => setAsked(null)}
        title={t(asked?.what === 'delete' ? 'deleteSnapshot' : 'rollbackTo', { name: asked?.name })}
        action={t(asked?.what === 'delete' ? 'delete' : 'rollback')}
        {...(asked?.what === 'rollback' ? { typed: asked.name } : {})}
        run={async () => {
          if (asked) await run(asked.what, asked.name);
        }}
      >
        {t(asked?.what === 'delete' ? 'deleteSnapshotText' : 'rollbackText')}
      </Confirm>
    </FormDialog>
  );
}
