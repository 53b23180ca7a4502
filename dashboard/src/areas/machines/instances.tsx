import { ActionIcon, Menu } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconCamera, IconDots, IconPlayerPlay, IconPlayerStop, IconRefresh, IconServerOff, IconTerminal2, IconTrash } from '@tabler/icons-react';
import { useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { useFailure } from '~/ui/failure';
import { Empty } from '~/ui/page';
import { messages } from './messages';
import { changeInstance, destroyInstance, instancesOf, networksQuery, serversQuery, type Server, type Vm } from './queries';
import { Rows } from '~/ui/rows';
import { Snapshots } from './snapshots';
import { MIB, size, State } from './state';

type Instance = Vm & { server: Server };
type Change = Parameters<typeof changeInstance>[1];

export function Instances() {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const { data: servers } = useSuspenseQuery(serversQuery);
  const { data: nets } = useSuspenseQuery(networksQuery);
  const [destroying, setDestroying] = useState<Instance>();
  const [snapshots, setSnapshots] = useState<Instance>();
  const instances = instancesOf(servers);
  const portsOf = (one: Instance) => nets.ports.filter((port) => port.device_uuid === one.uuid);
  const nameOf = (one: Instance) => one.alias ?? one.uuid ?? '';
  const change = async (one: Instance, what: Change) => {
    await (what === 'destroy' ? destroyInstance(one, portsOf(one)) : changeInstance(one, what));
    await queries.invalidateQueries({ queryKey: ['machines'] });
    notifications.show({ message: t(`done_${what}`, { name: nameOf(one) }) });
  };
  if (instances.length === 0) {
    return (
      <Empty icon={IconServerOff} title={t('noInstances')}>
        {t('noInstancesText')}
      </Empty>
    );
  }
  return (
    <>
      <Rows
        label={t('instances')}
        heads={[t('name'), t('state'), t('addresses'), t('floating'), t('memory'), t('node'), t('actions')]}
        rows={instances.map((one) => ({
          key: one.uuid ?? '',
          cells: [
            nameOf(one),
            <State key="state" of={one.state} />,
            portsOf(one)
              .flatMap((port) => port.fixed_ips.map(([, address]) => address))
              .join(', ') || null,
            nets.addresses
              .filter((address) => portsOf(one).some((port) => port.uuid === address.port_uuid))
              .map((address) => address.address)
              .join(', ') || null,
            one.max_physical_memory ? size(one.max_physical_memory * MIB) : null,
            one.server.hostname,
            <Actions key="actions" instance={one} name={nameOf(one)} change={change} destroy={() => setDestroying(one)} snapshots={() => setSnapshots(one)} />,
          ],
        }))}
      />
      {snapshots && <Snapshots instance={snapshots} name={nameOf(snapshots)} onClose={() => setSnapshots(undefined)} />}
      <Confirm
        opened={destroying !== undefined}
        onClose={() => setDestroying(undefined)}
        title={t('destroyTitle', { name: destroying ? nameOf(destroying) : '' })}
        action={t('destroy')}
        typed={destroying ? nameOf(destroying) : ''}
        run={async () => {
          if (destroying) await change(destroying, 'destroy');
        }}
      >
        {t('destroyText')}
      </Confirm>
    </>
  );
}

interface ActionsProps {
  instance: Instance;
  name: string;
  change: (one: Instance, what: Change) => Promise<void>;
  destroy: () => void;
  snapshots: () => void;
}

function Actions({ instance, name, change, destroy, snapshots }: ActionsProps) {
  const t = useTexts(messages);
  const failed = useFailure();
  const [busy, setBusy] = useState(false);
  const run = async (what: Change) => {
    setBusy(true);
    try {
      await change(instance, what);
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  const { may } = useSession();
  if (!may('member_api')) return null;
  const runs = instance.state === 'running';
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" loading={busy} aria-label={t('more', { name })}>
          <IconDots size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {!runs && (
          <Menu.Item leftSection={<IconPlayerPlay size={16} />} onClick={() => void run('start')}>
            {t('start')}
          </Menu.Item>
        )}
        {runs && (
          <Menu.Item leftSection={<IconPlayerStop size={16} />} onClick={() => void run('stop')}>
            {t('stop')}
          </Menu.Item>
        )}
        {runs && (
          <Menu.Item leftSection={<IconRefresh size={16} />} onClick={() => void run('reboot')}>
            {t('reboot')}
          </Menu.Item>
        )}
        {runs && (
          <Menu.Item leftSection={<IconTerminal2 size={16} />} renderRoot={(props) => <Link {...props} to="/machines/$serverId/$vmId" params={{ serverId: instance.server.uuid ?? '', vmId: instance.uuid ?? '' }} />}>
            {t('openConsole')}
          </Menu.Item>
        )}
        <Menu.Item leftSection={<IconCamera size={16} />} onClick={snapshots}>
          {t('snapshots')}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item color="red" leftSection={<IconTrash size={16} />} onClick={destroy}>
          {t('destroy')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
